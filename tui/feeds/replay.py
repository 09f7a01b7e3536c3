"""The feed of a recording: a position in its events decides which of them are out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from specmon.core.engine.messages import Progress
from specmon.core.events import Event, Round
from specmon.core.metrics.race import Unlike
from specmon.core.session.follow import follow as events_as_they_come
from specmon.core.session.ranges import EventRanges
from specmon.core.session.reader import SessionReader
from specmon.tui.feeds.feed import FeedItem, Rewound, Warned
from specmon.tui.feeds.playback import Playback

READ_BUDGET_S = 0.03  #: how long one poll may read ahead
SEARCHED_ROUNDS = 50_000  #: a search that must read the rounds gives up then, after about half a second
PROMPTS = 20  #: turns too far back to be read whose prompt alone is shown
OPENING_FRAMES = 100  #: skimmed at once, to see whether the recording is of a race
LEAD_ROUNDS = 2_000  #: rounds read before the place one goes to, at most


class ReplayFeed:
    """Plays a `.session`; skimmed in slices so that the screen answers while a long file loads.

    Only stops are kept in memory; events are read where they are shown. Moving back, or far on, starts over:
    `Rewound`, what later events cannot be read without, and the events from the start of a turn on. `left_out`
    counts the present turn's rounds before those, where it has too many for that. `unpaired` says of recordings
    side by side that they hold different numbers of turns.
    With `follow` the file may still grow, its events are kept, and playing means standing at its newest round.
    """

    def __init__(
        self, path: Path, *, follow: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self.paths: tuple[Path, ...] = (path,)
        self.playback = Playback()
        self.loaded = False
        self.left_out = 0
        self.unpaired = ""
        self._follow = follow
        self._clock = clock
        self._reader: SessionReader | None = None
        self._ranges: EventRanges | None = None
        self._skimmed = 0  # frames
        self._source: Iterator[Event | None] | None = None
        self._events: list[Event] = []  # of a file that grows
        self._shown = 0
        self._found_wrong: list[str] = []  # with a file that grows
        self._warned: set[str] = set()
        self._polled_at: float | None = None

    def start(self) -> None:
        """Open the file; raises SpecmonError where it is none that can be read."""
        if self._follow:
            self._source = events_as_they_come(self.path, warn=self._found_wrong.append)
        else:
            self._reader = SessionReader.open(self.path)
            self._ranges = EventRanges(self._reader)
            while not self.playback.stops and self._skimmed < min(len(self._reader.frames), OPENING_FRAMES):
                self._skim_next(self._reader)

    @property
    def is_race(self) -> bool:
        """Whether several lanes were made ready before anything was decoded."""
        return self.playback.stops.lanes_at_start > 1

    @property
    def unlike(self) -> Unlike:
        """What forbids to compare lanes of the present turn; those of one recording are alike."""
        return {}

    def poll(self) -> list[FeedItem]:
        """The events that became visible since the last call."""
        items = self._read_ahead()
        now = self._clock()
        if self._follow and not self.loaded and self.playback.playing:
            self.playback.go(len(self.playback.stops) - 1)
        elif self._polled_at is not None:
            self.playback.advance(now - self._polled_at)
        self._polled_at = now
        items += self._newly_visible()
        return items + self._new_warnings()

    def close(self, *, patient: bool = True) -> None:
        """Stop reading."""
        self._source = None
        if self._reader is not None:
            self._reader.close()
            self._reader = self._ranges = None

    @property
    def cut_here(self) -> frozenset[int]:
        """Lanes whose recording has no more rounds than are visible, though their turn has no end."""
        stops, at = self.playback.stops, self.playback.at
        if not self.loaded or self._follow or at < 0:
            return frozenset()
        turn = stops[at].turn
        lanes = {lane for lane, of in stops.decoders if of == turn} - stops.ended.get(turn, set())
        return frozenset(lane for lane in lanes if stops.last.get((lane, turn), at + 1) <= at)

    def events(self, first: int, end: int) -> Iterator[Event]:
        """The file's events by number, `end` not included."""
        if self._ranges is not None:
            return self._ranges.events(first, end)
        return iter(self._events[first:end])

    def find_next(self, wanted: Callable[[Round], bool]) -> bool:
        """Move to the next round that is `wanted`, past the end from the start again.

        Returns: False where there is none among the next SEARCHED_ROUNDS.
        """
        stops, at = self.playback.stops, self.playback.at
        order = itertools.chain(range(at + 1, len(stops)), range(at + 1))
        for stop in itertools.islice(order, SEARCHED_ROUNDS):
            number = stops.number(stop)
            if any(isinstance(event, Round) and wanted(event) for event in self.events(number, number + 1)):
                self.playback.playing = False
                self.playback.go(stop)
                return True
        return False

    def _read_ahead(self) -> list[FeedItem]:
        if self.loaded:
            return []
        stop_at = self._clock() + READ_BUDGET_S
        if self._source is not None:
            self._take_new(self._source, stop_at)
        elif self._reader is not None:
            return self._skim(self._reader, stop_at)
        return []

    def _take_new(self, source: Iterator[Event | None], stop_at: float) -> None:
        for event in source:
            if event is None:  # nothing new in a file that grows
                return
            self._events.append(event)
            self.playback.stops.add(event)
            if self._clock() >= stop_at:
                return
        self.loaded = True

    def _skim(self, reader: SessionReader, stop_at: float) -> list[FeedItem]:
        while self._skimmed < len(reader.frames):
            self._skim_next(reader)
            if self._clock() >= stop_at and self._skimmed < len(reader.frames):
                done, total = self.playback.stops.n_events, reader.n_events
                return [Progress(what=f"reading {self.path.name}: {done:,} of {total:,} events")]
        self.loaded = True
        return []

    def _skim_next(self, reader: SessionReader) -> None:
        stops = self.playback.stops
        misses = any(lane.decoder == "ssd" for lane in stops.lanes.values())
        stops.add_frame(reader.frames[self._skimmed].first_event, reader.skim(self._skimmed, misses=misses))
        self._skimmed += 1

    def _new_warnings(self) -> list[FeedItem]:
        """What was found wrong with the file since the last call, once all of it is known."""
        if not self.loaded:
            return []
        found = self._found_wrong if self._reader is None else self._reader.warnings
        new = [text for text in found if text not in self._warned]
        self._warned.update(new)
        return [Warned(text) for text in new]

    def _newly_visible(self) -> list[FeedItem]:
        visible, stops = self.playback.visible, self.playback.stops
        if visible == self._shown:
            return []
        items: list[FeedItem] = []
        begin, left_out = self.playback.first_event(LEAD_ROUNDS)
        if visible < self._shown or begin > self._shown:
            items.append(Rewound())
            items += stops.context_of(begin, PROMPTS)
            self._shown, self.left_out = begin, left_out
        items += self.events(self._shown, visible)
        self._shown = visible
        return items
