"""Moves events from a feed into a ledger, unless the view is frozen; tells the rest to whoever asks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

from specmon.core.engine.messages import Hello, Progress, Ready, Recording
from specmon.core.events import AnyEvent, Event, Gap, Header, Prefill, Round, Turn, TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.tui.feeds.backlog import Backlog
from specmon.tui.feeds.feed import Died, Feed, FeedItem, Rewound, Warned

CATCH_UP_S = 0.008  #: of a poll, beside what has just come


class Pump:
    """One feed, the ledger computed from it, and what is known about the engine behind it.

    While `frozen`, events wait in order and the ledger stays as it is; notices are handled all the same. A thawed
    view catches up a slice a `poll`.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.ledger = Ledger()
        self.frozen = False
        self.rounds = 0  # that ever came
        self.hello: Hello | None = None
        self.progress: Progress | None = None
        self.recording: Recording | None = None
        self.died: Died | None = None
        self.warnings: list[str] = []
        self._texts: list[str] = []
        self._header: Header | None = None
        self._position = 0  # in the engine's stream, after the newest event
        self._backlog = Backlog()

    @property
    def catching_up(self) -> bool:
        """Whether events wait though nothing is frozen."""
        return bool(self._backlog) and not self.frozen

    @property
    def answer(self) -> str:
        """The newest turn's text so far, frozen or not."""
        return "".join(self._texts)

    def poll(self) -> list[FeedItem]:
        """Take in what came; returns everything that was no event, and every `Turn` and `TurnEnd`."""
        told: list[FeedItem] = []
        for item in self.feed.poll():
            if isinstance(item, Event):
                self._take(cast(AnyEvent, item))
                if isinstance(item, (Turn, TurnEnd)):
                    told.append(item)
            else:
                self._note(item)
                told.append(item)
        if not self.frozen:
            self._catch_up(time.monotonic() + CATCH_UP_S)
        return told

    def _take(self, event: AnyEvent) -> None:
        if isinstance(event, Round):
            self.rounds += 1
            if not event.discarded:
                self._texts += event.text
        elif isinstance(event, Prefill | TurnEnd):
            self._texts.append(event.text)
        elif isinstance(event, Turn):
            self._texts.clear()
        elif isinstance(event, Header):
            self._header = event
        self._position += event.count if isinstance(event, Gap) else 1
        if self.frozen or self._backlog:
            self._backlog.put(event, self._position)
        else:
            self.ledger.feed(event)

    def _catch_up(self, stop_at: float = float("inf")) -> None:
        """Feed what waits, in order, until it is `stop_at` (monotonic seconds)."""
        while (event := self._backlog.take()) is not None:
            self.ledger.feed(cast(AnyEvent, event))
            if time.monotonic() >= stop_at:
                break

    def _note(self, item: FeedItem) -> None:
        match item:
            case Rewound():
                self.ledger = Ledger()
                self._backlog.clear()
            case Hello():
                self.hello, self.died = item, None
                self._backlog.spool = Path(item.spool) if item.spool else None
            case Progress():
                self.progress = item
            case Ready():
                self.progress = None
            case Recording():
                self.recording = item
                self._backlog.whole = item.whole
            case Died():
                self.died = item
            case Warned():
                self.warnings.append(item.text)

    @property
    def lost(self) -> int:
        """Events nobody has any more; those a slow view missed were read back from the spool."""
        return sum(gap.count for gap in self.ledger.gaps)

    def freeze(self) -> None:
        """Hold the ledger as it is; decoding and recording go on."""
        self.frozen = True

    def thaw(self) -> None:
        """Catch up with what came meanwhile: at once with what takes no time, else with further polls."""
        self.frozen = False
        self._catch_up(time.monotonic() + CATCH_UP_S)

    @property
    def behind(self) -> tuple[int, float]:
        """How far a frozen view is behind: rounds, and seconds of the stream."""
        return self._backlog.rounds, max(self._backlog.newest_t - self.ledger.newest_t, 0) / 1e9

    def restarted(self) -> None:
        """A new engine takes over: its clock starts anew, and so do all figures."""
        self.frozen, self._position, self._backlog = False, 0, Backlog()
        self.ledger = Ledger()
        self.hello = self.progress = self.recording = self.died = self._header = None
        self._texts.clear()

    def start_over(self) -> Ledger:
        """Begin an empty ledger that knows the same machine; returns the one before."""
        self.frozen = False
        self._catch_up()
        before, self.ledger = self.ledger, Ledger()
        if self._header is not None:
            self.ledger.feed(self._header)
        return before
