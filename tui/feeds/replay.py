"""The feed of a recording: a position in its events decides which of them are out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from specmon.core.engine.messages import Progress
from specmon.core.events import Event, Header
from specmon.core.session.reader import SessionReader
from specmon.tui.feeds.feed import FeedItem, Rewound, Warned
from specmon.tui.feeds.playback import Playback

READ_BUDGET_S = 0.03  #: how long one poll may decode


class ReplayFeed:
    """Plays a `.session`; read in slices so that the screen answers while a long file loads.

    The decoded events stay in memory. Moving back starts over: `Rewound`, then all that is visible again.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.playback = Playback()
        self.header: Header | None = None
        self.loaded = False
        self._clock = clock
        self._source: Iterator[Event | None] = iter(())
        self._reader: SessionReader | None = None
        self._shown = 0
        self._polled_at: float | None = None

    def start(self) -> None:
        """Open the file; raises SpecmonError where it is none that can be read."""
        self._reader = SessionReader.open(self.path)
        self.header = self._reader.header
        self._source = iter(self._events(self._reader))

    def poll(self) -> list[FeedItem]:
        """The events that became visible since the last call."""
        items = self._read_slice()
        now = self._clock()
        self.playback.advance(now - self._polled_at if self._polled_at is not None else 0.0)
        self._polled_at = now
        return items + self._newly_visible()

    def close(self) -> None:
        """Stop reading."""
        self._source = iter(())

    def _events(self, reader: SessionReader) -> Iterable[Event | None]:
        return (event for event in reader.events() if isinstance(event, Event))

    def _read_slice(self) -> list[FeedItem]:
        if self.loaded or self._reader is None:
            return []
        stop_at = self._clock() + READ_BUDGET_S
        for event in self._source:
            if event is None:
                return []
            self.playback.append(event)
            if self._clock() >= stop_at:
                return [Progress(what=f"reading {self.path.name}: {len(self.playback.events):,} events")]
        self.loaded = True
        return [Warned(text) for text in self._reader.warnings]

    def _newly_visible(self) -> list[FeedItem]:
        visible = self.playback.visible
        items: list[FeedItem] = []
        if visible < self._shown:
            items.append(Rewound())
            self._shown = 0
        items.extend(self.playback.events[self._shown : visible])
        self._shown = visible
        return items
