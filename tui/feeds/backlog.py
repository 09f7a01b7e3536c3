"""Events that wait while a view is frozen, in memory that does not grow: the older ones are left to the engine's spool."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from specmon.core.engine.refill import refill
from specmon.core.events import AnyEvent, Event, Gap, Round

HELD_EVENTS = 4_096
SPOOLED_AFTER_NS = 1_000_000_000  #: an event this old is in the spool, which is written every 250 ms


class Backlog:
    """A queue of the stream's events. The newest are held; those before them are read back from `spool`.

    A position counts the stream's events as `refill` does. Without a spool all events are held.
    """

    def __init__(self) -> None:
        self.spool: Path | None = None
        self.whole = True  # the spool lacks no event
        self.rounds = 0
        self.newest_t = 0
        self._held: deque[AnyEvent] = deque()
        self._next = 0  # position of the next event to take
        self._held_from = 0  # position of the oldest held
        self._spooled: Iterator[tuple[int, Event]] | None = None

    def __bool__(self) -> bool:
        return bool(self._held) or self._next < self._held_from

    def put(self, event: AnyEvent, position: int) -> None:
        """Add the stream's newest event; `position` is the one after it."""
        if not self:
            self._next = self._held_from = position - _stands_for(event)
        self._held.append(event)
        self.rounds += isinstance(event, Round)
        self.newest_t = max(self.newest_t, event.t)
        held = self._held
        while (
            self.spool is not None
            and len(held) > HELD_EVENTS
            and self.newest_t - held[0].t > SPOOLED_AFTER_NS
        ):
            self._held_from += _stands_for(held.popleft())

    def take(self) -> Event | None:
        """The oldest event; None once nothing waits."""
        event = self._from_spool() if self._next < self._held_from else None
        if event is None and self._held:
            event = self._held.popleft()
            self._held_from += _stands_for(event)
            self._next = self._held_from
        self.rounds = self.rounds - isinstance(event, Round) if self else 0
        return event

    def clear(self) -> None:
        """Forget everything that waits."""
        self._held.clear()
        self._next = self._held_from
        self._spooled = None
        self.rounds = self.newest_t = 0

    def _from_spool(self) -> Event | None:
        """The next event before those held; None when they are through."""
        while self._next < self._held_from:
            if self._spooled is None:
                self._spooled = refill(self.spool, self._next, self._held_from, whole=self.whole)
            found = next(self._spooled, None)
            if found is not None:
                self._next, event = found
                return event
            self._spooled = None  # more may have gone to the spool meanwhile
        return None


def _stands_for(event: Event) -> int:
    """How many of the stream's events one is."""
    return event.count if isinstance(event, Gap) else 1
