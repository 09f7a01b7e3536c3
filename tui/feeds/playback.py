"""Which part of a recording is visible now: playing, stepping, seeking. Knows no file, clock or screen.

A recording is a list of events with *stops*: one behind every prefill and every kept round, together with the
lesser events that follow it. The position is a stop; everything up to it is visible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specmon.core.events import Event, Lane, Marker, Prefill, Round, Turn, Vocabulary

FOLD_NS = 2_000_000_000  #: a longer silence is played as one of this length
ROUND_SPEEDS = (1, 2, 5, 10, 20, 50)  #: rounds a second
TIME_SPEEDS = (0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0)  #: times real time


@dataclass(frozen=True)
class Stop:
    """A place to stand: `visible` leading events; `round` is None right after a prefill."""

    visible: int
    t: int
    lane: int
    turn: int
    round: Round | None


@dataclass(frozen=True)
class Speed:
    """How fast to play: in rounds a second, or in multiples of real time."""

    unit: Literal["rounds", "time"] = "rounds"
    level: int = 2

    @property
    def value(self) -> float:
        return float(self._levels[self.level])

    @property
    def label(self) -> str:
        return f"{self.value:g} rounds/s" if self.unit == "rounds" else f"{self.value:g}× real time"

    @property
    def _levels(self) -> tuple[float, ...]:
        return ROUND_SPEEDS if self.unit == "rounds" else TIME_SPEEDS

    def changed(self, by: int) -> Speed:
        """The speed `by` notches faster (slower if negative), at most the fastest or slowest."""
        return Speed(self.unit, min(max(self.level + by, 0), len(self._levels) - 1))

    def other_unit(self) -> Speed:
        """The usual speed in the other unit: 5 rounds/s or real time."""
        return Speed("time", TIME_SPEEDS.index(1.0)) if self.unit == "rounds" else Speed()


class Playback:
    """A position in a growing list of events.

    `at` is the index of the present stop, -1 before the first. Moves clamp at both ends; searches say whether
    they found anything and leave the position alone when they did not.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stops: list[Stop] = []
        self.turn_starts: list[int] = []
        self.at = -1
        self.playing = True
        self.speed = Speed()
        self.markers: list[Marker] = []  # the file's
        self.marks: list[int] = []  # stops the viewer marked
        self.mark_a: int | None = None
        self.mark_b: int | None = None
        self.loop: tuple[int, int] | None = None
        self.decoders: dict[tuple[int, int], tuple[str, int]] = {}  # (lane, turn): decoder and draft_len
        self._rounds_until: list[int] = []  # rounds up to and with each stop
        self._lanes: dict[int, str] = {}
        self._tail_open = False
        self._credit = 0.0

    def append(self, event: Event) -> None:
        """Add the next event of the file."""
        self.events.append(event)
        if isinstance(event, Prefill) or (isinstance(event, Round) and not event.discarded):
            self._add_stop(event)
            return
        if isinstance(event, Turn | Lane | Vocabulary):
            self._tail_open = False
            self._learn(event)
        elif isinstance(event, Marker):
            self.markers.append(event)
        if self._tail_open:
            last = self.stops[-1]
            self.stops[-1] = Stop(len(self.events), last.t, last.lane, last.turn, last.round)

    def _learn(self, event: Turn | Lane | Vocabulary) -> None:
        if isinstance(event, Lane):
            self._lanes[event.lane] = event.decoder
        elif isinstance(event, Turn):
            self.decoders[event.lane, event.turn] = (self._lanes.get(event.lane, ""), event.draft_len)

    def _add_stop(self, event: Prefill | Round) -> None:
        round_ = event if isinstance(event, Round) else None
        end = round_.t1 if round_ else event.t
        if round_ is None and (not self.turn_starts or self.stops[self.turn_starts[-1]].turn != event.turn):
            self.turn_starts.append(len(self.stops))
        self._rounds_until.append((self._rounds_until or [0])[-1] + (round_ is not None))
        self.stops.append(Stop(len(self.events), end, event.lane, event.turn, round_))
        self._tail_open = True

    @property
    def here(self) -> Stop | None:
        """The present stop; None before the first."""
        return self.stops[self.at] if 0 <= self.at < len(self.stops) else None

    @property
    def visible(self) -> int:
        """How many leading events are visible; all of them where the file has no stop at all."""
        if not self.stops:
            return len(self.events)
        return self.stops[self.at].visible if self.at >= 0 else 0

    @property
    def duration_ns(self) -> int:
        """The time of the last stop."""
        return self.stops[-1].t if self.stops else 0

    # --- moving ---------------------------------------------------------------------------------------------

    def go(self, stop: int) -> None:
        """Stand at `stop`, clamped to the file; nowhere in a file without stops."""
        self.at = min(max(stop, 0), len(self.stops) - 1)
        self._credit = 0.0

    def step(self, by: int) -> None:
        """Move by stops; stepping pauses."""
        self.playing = False
        self.go(self.at + by)

    def step_turn(self, by: Literal[-1, 1]) -> None:
        """To the next turn's start, or to this turn's start and then the one before."""
        self.playing = False
        if by > 0:
            self.go(next((s for s in self.turn_starts if s > self.at), len(self.stops) - 1))
        else:
            self.go(next((s for s in reversed(self.turn_starts) if s < self.at), 0))

    def go_time(self, t_ns: int) -> None:
        """To the last stop at or before `t_ns`."""
        self.go(self.stop_at(t_ns))

    def stop_at(self, t_ns: int) -> int:
        """The last stop at or before `t_ns`, the first where there is none."""
        return max(bisect_right(self.stops, t_ns, key=lambda stop: stop.t) - 1, 0)

    def go_round(self, index: int, turn: int | None = None) -> bool:
        """To round `index` (from 1) of turn number `turn` (from 1; None: the present one)."""
        span = self._turn_span(self._turn_at(self.at) if turn is None else turn - 1)
        if not span or not 1 <= index <= self._rounds_in(span):
            return False
        self.go(bisect_left(self._rounds_until, self._rounds_before(span.start) + index))
        return True

    def find_next(self, wanted: Callable[[Round], bool]) -> bool:
        """To the next round that is `wanted`, past the end from the start again."""
        order = [*range(self.at + 1, len(self.stops)), *range(self.at + 1)]
        for i in order:
            round_ = self.stops[i].round
            if round_ is not None and wanted(round_):
                self.playing = False
                self.go(i)
                return True
        return False

    def find_slowest(self) -> bool:
        """To the slowest round of the present turn."""
        span = self._turn_span(self._turn_at(self.at))
        timed = [(r.t1 - r.t0, i) for i in span if (r := self.stops[i].round) is not None]
        if not timed:
            return False
        self.playing = False
        self.go(max(timed, key=lambda item: item[0])[1])
        return True

    # --- playing --------------------------------------------------------------------------------------------

    def advance(self, dt_s: float) -> None:
        """Let `dt_s` seconds of the viewer's time pass."""
        if self.at < 0 and self.stops:
            self.at = 0
            return
        if not self.playing or not self.stops:
            return
        self._credit += dt_s * self.speed.value
        while self._credit >= (cost := self._cost(self.at)):
            if self.at >= self._last:
                self._credit = 0.0
                if self.loop is not None:
                    self.at = self.loop[0]
                return
            self._credit -= cost
            self.at += 1

    def toggle(self) -> None:
        """Play or pause; playing at the end starts over."""
        self.playing = not self.playing
        if self.playing and self.stops and self.at >= len(self.stops) - 1:
            self.go(0)

    def toggle_loop(self) -> bool:
        """Loop between A and B, or no longer; False where A does not lie before B."""
        if self.loop is not None:
            self.loop = None
        elif self.mark_a is None or self.mark_b is None or self.mark_a >= self.mark_b:
            return False
        else:
            self.loop = (self.mark_a, self.mark_b)
        return True

    @property
    def ended(self) -> bool:
        """Whether the position is the last stop."""
        return bool(self.stops) and self.at >= len(self.stops) - 1

    @property
    def _last(self) -> int:
        return self.loop[1] if self.loop and self.at <= self.loop[1] else len(self.stops) - 1

    def _cost(self, stop: int) -> float:
        """What the step from `stop` to the next costs: one round, or its seconds of file time."""
        if self.speed.unit == "rounds" or stop + 1 >= len(self.stops):
            return 1.0
        return min(max(self.stops[stop + 1].t - self.stops[stop].t, 0), FOLD_NS) / 1e9

    # --- where in the file ----------------------------------------------------------------------------------

    def place(self) -> tuple[int, int, int, int]:
        """(turn, turns, round, rounds of that turn), each from 1; round 0 right after a prefill."""
        turn = self._turn_at(self.at)
        span = self._turn_span(turn)
        so_far = self._rounds_in(range(span.start, self.at + 1)) if self.at >= span.start else 0
        return turn + 1, len(self.turn_starts), so_far, self._rounds_in(span)

    def _rounds_before(self, stop: int) -> int:
        return self._rounds_until[stop - 1] if stop > 0 else 0

    def _rounds_in(self, span: range) -> int:
        return self._rounds_until[span.stop - 1] - self._rounds_before(span.start) if span else 0

    def _turn_at(self, stop: int) -> int:
        return max(bisect_right(self.turn_starts, stop) - 1, 0)

    def _turn_span(self, turn: int) -> range:
        if not 0 <= turn < len(self.turn_starts):
            return range(0) if self.turn_starts else range(len(self.stops))
        end = self.turn_starts[turn + 1] if turn + 1 < len(self.turn_starts) else len(self.stops)
        return range(self.turn_starts[turn], end)
