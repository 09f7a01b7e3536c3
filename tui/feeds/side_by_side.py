"""The feed of recordings made apart, shown as one race."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from specmon.core.events import Event, Turn
from specmon.core.metrics.race_recordings import side_by_side
from specmon.core.session.reader import SessionReader
from specmon.tui.feeds.feed import FeedItem, Warned
from specmon.tui.feeds.replay import ReplayFeed


class SideBySideFeed(ReplayFeed):
    """Plays the first turns of several recordings as lanes that began to decode at one moment.

    Those turns' events are kept in memory. `unlike` says what forbids to compare the lanes.
    """

    def __init__(self, paths: Sequence[Path], *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Path(" + ".join(path.name for path in paths)), clock=clock)
        self.paths = tuple(paths)
        self._warnings: list[FeedItem] = []

    def start(self) -> None:
        """Read all files; raises SpecmonError where one cannot be read, UsageError where they make no race."""
        recordings = []
        for path in self.paths:
            with SessionReader.open(path) as reader:
                recordings.append(list(_first_turn(reader.events())))
                self._warnings += [Warned(f"{path.name}: {text}") for text in reader.warnings]
        race = side_by_side(recordings)
        self.unlike = race.unlike
        self._events = race.events
        for event in race.events:
            self.playback.stops.add(event)

    def _read_ahead(self) -> list[FeedItem]:
        self.loaded = True
        told, self._warnings = self._warnings, []
        return told


def _first_turn(events: Iterator[Event]) -> Iterator[Event]:
    """A recording's events up to its second turn."""
    number: int | None = None
    for event in events:
        if isinstance(event, Turn):
            number = event.turn if number is None else number
            if event.turn != number:
                return
        yield event
