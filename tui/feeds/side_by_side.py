"""The feed of recordings made apart, shown as one race."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from specmon.core.metrics.race import Unlike
from specmon.core.metrics.race_recordings import SideBySide, side_by_side
from specmon.core.session.reader import SessionReader
from specmon.tui.feeds.feed import FeedItem, Warned
from specmon.tui.feeds.replay import ReplayFeed


class SideBySideFeed(ReplayFeed):
    """Plays the turns of several recordings, paired by their order, as lanes that began to decode at one moment.

    Their events are kept in memory.
    """

    def __init__(self, paths: Sequence[Path], *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Path(" + ".join(path.name for path in paths)), clock=clock)
        self.paths = tuple(paths)
        self._unlike: tuple[Unlike, ...] = ()
        self._warnings: list[FeedItem] = []

    def start(self) -> None:
        """Read all files; raises SpecmonError where one cannot be read, UsageError where they make no race."""
        race = read_side_by_side(self.paths, lambda text: self._warnings.append(Warned(text)))
        self.unpaired, self._unlike, self._events = race.unpaired, race.unlike, race.events
        for event in race.events:
            self.playback.stops.add(event)

    @property
    def unlike(self) -> Unlike:
        here = self.playback.here
        return self._unlike[here.turn] if here is not None else {}

    def _read_ahead(self) -> list[FeedItem]:
        self.loaded = True
        told, self._warnings = self._warnings, []
        return told


def read_side_by_side(paths: Sequence[Path], warn: Callable[[str], object]) -> SideBySide:
    """Read recordings and put them side by side; what is wrong with a file goes to `warn`.

    Raises: SpecmonError where one cannot be read, UsageError where they make no race.
    """
    recordings = []
    for path in paths:
        with SessionReader.open(path) as reader:
            recordings.append(list(reader.events()))
            for text in reader.warnings:
                warn(f"{path.name}: {text}")
    return side_by_side(recordings)
