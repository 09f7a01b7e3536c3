"""Which part of a recording is visible now: playing, stepping, seeking. Knows no file, clock or screen.

The position is a stop (see `stops`); everything up to it is visible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Literal

from specmon.tui.feeds.stops import FOLD_NS, Stop, Stops

ROUND_SPEEDS = (1, 2, 5, 10, 20, 50)  #: rounds a second
TIME_SPEEDS = (0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0)  #: times real time


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
    """A position in a growing list of stops.

    `at` is the index of the present stop, -1 before the first. Moves clamp at both ends; searches say whether
    they found anything and leave the position alone when they did not.
    """

    def __init__(self) -> None:
        self.stops = Stops()
        self.at = -1
        self.playing = True
        self.speed = Speed()
        self.marks: list[int] = []  # stops the viewer marked
        self.mark_a: int | None = None
        self.mark_b: int | None = None
        self.loop: tuple[int, int] | None = None
        self._credit = 0.0

    @property
    def here(self) -> Stop | None:
        """The present stop; None before the first."""
        return self.stops[self.at] if 0 <= self.at < len(self.stops) else None

    @property
    def visible(self) -> int:
        """How many leading events are visible; all of them where the file has no stop at all."""
        if not self.stops:
            return self.stops.n_events
        return self.stops.visible(self.at) if self.at >= 0 else 0

    @property
    def duration_ns(self) -> int:
        """The time of the last stop."""
        return self.stops.t(len(self.stops) - 1) if self.stops else 0

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
        starts = self.turn_starts
        if by > 0:
            later = bisect_right(starts, self.at)
            self.go(starts[later] if later < len(starts) else len(self.stops) - 1)
        else:
            earlier = bisect_left(starts, self.at)
            self.go(starts[earlier - 1] if earlier else 0)

    def go_time(self, t_ns: int) -> None:
        """To the last stop at or before `t_ns`."""
        self.go(self.stops.at_time(t_ns))

    def go_round(self, index: int, turn: int | None = None) -> bool:
        """To round `index` (from 1) of turn number `turn` (from 1; None: the present one)."""
        span = self._turn_span(self._turn_at(self.at) if turn is None else turn - 1)
        if not span or not 1 <= index <= self._rounds_in(span):
            return False
        wanted = self._rounds_before(span.start) + index
        self.go(bisect_left(range(len(self.stops)), wanted, key=self.stops.rounds_until))
        return True

    def find_next_miss(self) -> bool:
        """To the next round that missed, past the end from the start again."""
        misses = self.stops.misses
        if not misses:
            return False
        later = bisect_right(misses, self.at)
        return self._found(misses[later] if later < len(misses) else misses[0])

    def find_slowest(self) -> bool:
        """To the slowest round of the present turn."""
        slowest = self.stops.slowest(self._turn_span(self._turn_at(self.at)))
        return slowest is not None and self._found(slowest)

    def _found(self, stop: int) -> bool:
        self.playing = False
        self.go(stop)
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
        return min(max(self.stops.t(stop + 1) - self.stops.t(stop), 0), FOLD_NS) / 1e9

    # --- where in the file ----------------------------------------------------------------------------------

    @property
    def turn_starts(self) -> list[int]:
        """The stops the turns start with."""
        return [start for start, _ in self.stops.turns]

    def place(self) -> tuple[int, int, int, int]:
        """(turn, turns, round, rounds of that turn), each from 1; round 0 right after a prefill."""
        turn = self._turn_at(self.at)
        span = self._turn_span(turn)
        so_far = self._rounds_in(range(span.start, self.at + 1)) if self.at >= span.start else 0
        return turn + 1, len(self.stops.turns), so_far, self._rounds_in(span)

    def first_event(self, rounds: int) -> tuple[int, int]:
        """Where to begin reading so as to show the present stop: (number of an event, rounds left out).

        At the start of the earliest turn from which on `rounds` rounds lead here; where the present turn alone
        has more, behind its last `rounds` before here, and the turn's earlier rounds are those left out.
        """
        if self.at < 0 or not self.stops.turns or self.stops.rounds_until(self.at) <= rounds:
            return 0, 0
        turn = self._turn_at(self.at)
        enough = self.stops.rounds_until(self.at) - rounds
        first = bisect_left(self.stops.turns, enough, hi=turn, key=lambda t: self._rounds_before(t[0]))
        start, number = self.stops.turns[first]
        if self._rounds_before(start) >= enough:
            return number, 0
        stop = bisect_left(range(self.at), enough, key=self.stops.rounds_until)
        return self.stops.visible(stop), enough - self._rounds_before(start)

    def stretch(self) -> tuple[int, int]:
        """The events (first, end) from A to B, else those of the present turn that are visible."""
        a, b = self.mark_a, self.mark_b
        if a is not None and b is not None and a <= b:
            return self.stops.number(a), self.stops.visible(b)
        turn = self._turn_at(self.at)
        first = self.stops.turns[turn][1] if self.stops.turns else 0
        return first, max(self.visible, first)

    def _rounds_before(self, stop: int) -> int:
        return self.stops.rounds_until(stop - 1) if stop > 0 else 0

    def _rounds_in(self, span: range) -> int:
        return self.stops.rounds_until(span.stop - 1) - self._rounds_before(span.start) if span else 0

    def _turn_at(self, stop: int) -> int:
        return max(bisect_right(self.stops.turns, stop, key=lambda turn: turn[0]) - 1, 0)

    def _turn_span(self, turn: int) -> range:
        turns = self.stops.turns
        if not 0 <= turn < len(turns):
            return range(0) if turns else range(len(self.stops))
        end = turns[turn + 1][0] if turn + 1 < len(turns) else len(self.stops)
        return range(turns[turn][0], end)
