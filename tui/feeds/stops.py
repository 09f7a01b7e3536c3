"""The places in a recording where one can stand, in columns that a million of them fit into.

A *stop* is behind every prefill and every kept round, together with the lesser events that follow it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from operator import sub

from specmon.core.events import (
    Event,
    Header,
    Lane,
    Marker,
    Prefill,
    Round,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.session.skim import Skim

FOLD_NS = 2_000_000_000  #: a longer silence is played as one of this length

#: What later events need to be understood, wherever one begins to read.
_CONTEXT = (Header, Lane, Vocabulary, Marker)


@dataclass(frozen=True)
class Stop:
    """A place to stand: `visible` leading events, the time (ns), and whose it is; right after a prefill `ns` is 0."""

    visible: int
    t: int
    lane: int
    turn: int
    ns: int
    is_round: bool


class Stops:
    """All stops so far, in the file's order; `add` and `add_frame` append what comes next.

    `turns` holds, for every turn, the stop it starts with and the number of its first event. `misses` and
    `folds` are stops: rounds whose outcome had no branch, and those after a silence that is played shorter.
    `openings` holds, by number, every turn's first event, `context` what later events cannot be read without.
    """

    def __init__(self) -> None:
        self.n_events = 0
        self.turns: list[tuple[int, int]] = []
        self.misses = array("q")
        self.folds: list[int] = []
        self.markers: list[Marker] = []
        self.decoders: dict[tuple[int, int], tuple[str, int]] = {}  # (lane, turn): decoder and draft_len
        self.lanes: dict[int, Lane] = {}
        self.lanes_at_start = 0  # lanes that were ready before anything was decoded
        self.context: list[tuple[int, Event]] = []
        self.openings: list[tuple[int, Turn]] = []
        self.ended: dict[int, set[int]] = {}  # by turn: lanes whose turn came to its end
        self.last: dict[tuple[int, int], int] = {}  # (lane, turn): its newest stop
        self._numbers = array("q")  # of the events the stops are behind
        self._t = array("q")
        self._ns = array("q")
        self._lane = array("q")
        self._turn = array("q")
        self._prefills: list[int] = []
        self._breaks: list[int] = []  # numbers of events that belong to no stop before them
        self._opened: tuple[int, int] | None = None  # turn number, and number of its first event

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, stop: int) -> Stop:
        return Stop(
            self.visible(stop),
            self._t[stop],
            self._lane[stop],
            self._turn[stop],
            self._ns[stop],
            not self.is_prefill(stop),
        )

    def visible(self, stop: int) -> int:
        """How many leading events are visible at a stop."""
        end = self._numbers[stop + 1] if stop + 1 < len(self._numbers) else self.n_events
        later = bisect_right(self._breaks, self._numbers[stop])
        return min(end, self._breaks[later]) if later < len(self._breaks) else end

    def number(self, stop: int) -> int:
        """The number of the event a stop is behind."""
        return self._numbers[stop]

    def t(self, stop: int) -> int:
        """When a stop's round ended, or its prefill (ns)."""
        return self._t[stop]

    def longest_ns(self, first: int, end: int) -> int:
        """The longest round of these stops (ns), 0 where there is none."""
        return max(self._ns[first:end], default=0)

    def slowest(self, span: range) -> int | None:
        """The stop of the longest round in `span`."""
        longest = self.longest_ns(span.start, span.stop)
        return self._ns.index(longest, span.start, span.stop) if longest else None

    def is_prefill(self, stop: int) -> bool:
        """Whether a stop is right behind a prefill."""
        at = bisect_left(self._prefills, stop)
        return at < len(self._prefills) and self._prefills[at] == stop

    def rounds_until(self, stop: int) -> int:
        """Rounds up to and with a stop."""
        return stop + 1 - bisect_right(self._prefills, stop)

    def at_time(self, t_ns: int) -> int:
        """The last stop at or before `t_ns`, the first where there is none."""
        return max(bisect_right(self._t, t_ns) - 1, 0)

    def is_folded(self, stop: int) -> bool:
        """Whether the silence before this stop is played shorter than it was."""
        at = bisect_left(self.folds, stop)
        return at < len(self.folds) and self.folds[at] == stop

    def context_of(self, number: int, turns: int) -> list[Event]:
        """What must be read before the events from `number` on: with it the last `turns` turns' first events."""
        earlier = self.openings[: bisect_left(self.openings, number, key=lambda opening: opening[0])]
        context = [pair for pair in self.context if pair[0] < number]
        return [event for _, event in merge(context, earlier[-turns:], key=lambda pair: pair[0])]

    # --- adding ---------------------------------------------------------------------------------------------

    def add(self, event: Event) -> None:
        """Add the next event."""
        number = self.n_events
        self.n_events += 1
        if isinstance(event, Round):
            if not event.discarded:
                if event.miss is not None:
                    self.misses.append(len(self))
                self._extend([number], [event.t1], [event.t1 - event.t0], [event.lane], [event.turn])
        else:
            self._add_other(number, event)

    def add_frame(self, first_event: int, frame: Skim) -> None:
        """Add a frame whose first event has number `first_event`. Raises OverflowError for hostile numbers."""
        self.n_events = first_event + frame.n_lines
        done = 0
        for line, event in frame.others:
            upto = bisect_left(frame.lines, line, done)
            self._add_rounds(first_event, frame, done, upto)
            self._add_other(first_event + line, event)
            done = upto
        self._add_rounds(first_event, frame, done, len(frame.lines))

    def _add_rounds(self, first_event: int, frame: Skim, first: int, end: int) -> None:
        """Add the rounds at places `first` to `end` of a frame's columns, but not the discarded."""
        for discarded in frame.discarded:
            if first <= discarded < end:
                self._add_rounds(first_event, frame, first, discarded)
                first = discarded + 1
        if first >= end:
            return
        base = len(self) - first
        missed = frame.missed[bisect_left(frame.missed, first) : bisect_left(frame.missed, end)]
        self.misses.extend([base + place for place in missed])
        self._extend(
            [first_event + line for line in frame.lines[first:end]],
            frame.t1[first:end],
            frame.ns[first:end],
            frame.lanes[first:end],
            frame.turns[first:end],
        )

    def _extend(
        self,
        numbers: Sequence[int],
        t: Sequence[int],
        ns: Sequence[int],
        lanes: Sequence[int],
        turns: Sequence[int],
    ) -> None:
        first = len(self)
        self._learn_last(first, lanes, turns)
        gaps = list(map(sub, t, [self._t[-1] if first else t[0], *t]))
        if max(gaps) > FOLD_NS:
            self.folds += [first + place for place, gap in enumerate(gaps) if gap > FOLD_NS]
        new = [array("q", values) for values in (numbers, t, ns, lanes, turns)]
        for column, values in zip(
            (self._numbers, self._t, self._ns, self._lane, self._turn), new, strict=True
        ):
            column.extend(values)

    def _learn_last(self, first: int, lanes: Sequence[int], turns: Sequence[int]) -> None:
        count = len(lanes)
        if lanes.count(lanes[0]) == count and turns.count(turns[0]) == count:
            self.last[lanes[0], turns[0]] = first + count - 1
        else:
            self.last.update(zip(zip(lanes, turns, strict=True), range(first, first + count), strict=True))

    def _add_other(self, number: int, event: Event) -> None:
        if isinstance(event, _CONTEXT):
            self.context.append((number, event))
        if isinstance(event, Prefill):
            self._add_prefill(number, event)
        elif isinstance(event, Turn | Lane | Vocabulary):
            self._breaks.append(number)
            self._learn(number, event)
        elif isinstance(event, Marker):
            self.markers.append(event)
        elif isinstance(event, TurnEnd):
            self.ended.setdefault(event.turn, set()).add(event.lane)

    def _learn(self, number: int, event: Turn | Lane | Vocabulary) -> None:
        if isinstance(event, Lane):
            self.lanes[event.lane] = event
        elif isinstance(event, Turn):
            self.lanes_at_start = self.lanes_at_start or len(self.lanes)
            self.openings.append((number, event))
            lane = self.lanes.get(event.lane)
            self.decoders[event.lane, event.turn] = (lane.decoder if lane else "", event.draft_len)
            if self._opened is None or self._opened[0] != event.turn:
                self._opened = (event.turn, number)

    def _add_prefill(self, number: int, event: Prefill) -> None:
        if not self.turns or self._turn[self.turns[-1][0]] != event.turn:
            opened = self._opened is not None and self._opened[0] == event.turn
            self.turns.append((len(self), self._opened[1] if opened and self._opened else number))
        self._prefills.append(len(self))
        self._extend([number], [event.t], [0], [event.lane], [event.turn])
