"""The feed of a recording: a position in its events decides which of them are out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from specmon.core.engine.messages import Progress
from specmon.core.events import Event
from specmon.core.session.follow import follow as events_as_they_come
from specmon.core.session.reader import SessionReader
from specmon.tui.feeds.feed import FeedItem, Rewound, Warned
from specmon.tui.feeds.playback import Playback

READ_BUDGET_S = 0.03  #: how long one poll may decode


class ReplayFeed:
    """Plays a `.session`; read in slices so that the screen answers while a long file loads.

    The decoded events stay in memory. Moving back starts over: `Rewound`, then all that is visible again.
    With `follow` the file may still grow, and playing means standing at its newest round.
    """

    def __init__(
        self, path: Path, *, follow: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self.playback = Playback()
        self.loaded = False
        self._follow = follow
        self._clock = clock
        self._source: Iterator[Event | None] | None = None
        self._reader: SessionReader | None = None
        self._shown = 0
        self._polled_at: float | None = None

    def start(self) -> None:
        """Open the file; raises SpecmonError where it is none that can be read."""
        if self._follow:
            self._source = events_as_they_come(self.path)
        else:
            self._reader = SessionReader.open(self.path)
            self._source = self._reader.events()

    def poll(self) -> list[FeedItem]:
        """The events that became visible since the last call."""
        items = self._read_slice()
        now = self._clock()
        if self._follow and not self.loaded and self.playback.playing:
            self.playback.go(len(self.playback.stops) - 1)
        elif self._polled_at is not None:
            self.playback.advance(now - self._polled_at)
        self._polled_at = now
        return items + self._newly_visible()

    def close(self) -> None:
        """Stop reading."""
        self._source = None
        if self._reader is not None:
            self._reader.close()

    def _read_slice(self) -> list[FeedItem]:
        if self.loaded or self._source is None:
            return []
        stop_at = self._clock() + READ_BUDGET_S
        for event in self._source:
            if event is None:  # nothing new in a file that grows
                return []
            self.playback.append(event)
            if self._clock() >= stop_at:
                return [Progress(what=f"reading {self.path.name}: {len(self.playback.events):,} events")]
        self.loaded = True
        return [Warned(text) for text in self._reader.warnings] if self._reader is not None else []

    def _newly_visible(self) -> list[FeedItem]:
        visible = self.playback.visible
        items: list[FeedItem] = []
        if visible < self._shown:
            items.append(Rewound())
            self._shown = 0
        items.extend(self.playback.events[self._shown : visible])
        self._shown = visible
        return items
