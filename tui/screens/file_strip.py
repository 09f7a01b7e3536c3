"""The whole recording in a few rows: where it was slow, where it missed, its turns, and where you are."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from specmon.tui.feeds.playback import FOLD_NS, Playback, Stop
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line, fit

LABEL = 10  # cells of the row labels in the tall form
TALL_ROWS = 5
SLOW = 4.0  #: a round this many times the median fills its column


@dataclass
class FileStrip:
    """Draws a playback's strip; the parts that only change with the file or the width are kept."""

    playback: Playback
    signs: Glyphs
    _kept: tuple[tuple[int, int], list[str]] = field(default=((-1, -1), []))

    def lines(self, width: int, height: int, notes: tuple[str, ...] = ()) -> list[Line]:
        """`height` rows: 3 (times and turns) or 5 (misses and a legend too)."""
        tall = height >= TALL_ROWS
        label = LABEL if tall else 1
        columns = max(width - label, 1)
        if self._kept[0] != (len(self.playback.stops), columns):
            rows = [self._times(columns), self._misses(columns), self._turns(columns)]
            self._kept = ((len(self.playback.stops), columns), rows)
        times, misses, turns = self._kept[1]
        lines = [self._title(width, columns, tall), self._row("ms/round", label, times, "verify")]
        if tall:
            lines.append(self._row("misses", label, misses, "miss"))
        lines.append(self._row("turns", label, self._marked(turns), "muted"))
        if tall:
            lines.append(self._legend(notes))
        return lines

    def _title(self, width: int, columns: int, tall: bool) -> Line:
        """What a column is; in the low form also the time, which the status line has no room for."""
        each = -(-len(self.playback.stops) // columns)
        basis = f"1 column = {each:,} round{'s' if each != 1 else ''}, worst shown"
        note = f" {basis} · gaps over {FOLD_NS // 10**9} s folded {self._fold_sign} {self.signs.rule}"
        name: Line = [(f"{self.signs.rule} ", "border"), ("WHOLE FILE " if tall else self._time(), "title")]
        return [*fit(name, width - len(note), self.signs.rule, "border"), (note, "muted")]

    def _time(self) -> str:
        here = self.playback.here
        return f"{_clock(here.t if here else 0)}/{_clock(self.playback.duration_ns)} "

    @staticmethod
    def _row(name: str, label: int, text: str, role: str) -> Line:
        return [(f" {name:<{label - 1}}"[:label], "muted"), (text, role)]

    def _column_of(self, stop: int, columns: int) -> int:
        stops = len(self.playback.stops)
        return stop if stops <= columns else stop * columns // stops

    def _columns(self, columns: int) -> list[list[Stop]]:
        shared: list[list[Stop]] = [[] for _ in range(min(columns, len(self.playback.stops)))]
        for i, stop in enumerate(self.playback.stops):
            shared[self._column_of(i, columns)].append(stop)
        return shared

    def _times(self, columns: int) -> str:
        worst = [max((_round_ns(stop) for stop in group), default=0) for group in self._columns(columns)]
        timed = [ns for ns in worst if ns]
        top = min(max(timed), SLOW * median(timed)) if timed else 1
        return "".join(self._level(ns / top) if ns else " " for ns in worst)

    def _level(self, fraction: float) -> str:
        levels = self.signs.levels
        return levels[min(int(fraction * len(levels)), len(levels) - 1)]

    def _misses(self, columns: int) -> str:
        groups = self._columns(columns)
        missed = (any(s.round is not None and s.round.miss for s in group) for group in groups)
        return "".join(self.signs.miss if miss else self.signs.rest for miss in missed)

    def _turns(self, columns: int) -> str:
        """A rule with each turn's number and decoder at its start, folded gaps and the user's marks."""
        stops = self.playback.stops
        cells = [self.signs.rule] * min(columns, len(stops))
        for i in range(1, len(stops)):
            if self._folded(i):
                cells[self._column_of(i, columns)] = self._fold_sign
        for number, start in enumerate(self.playback.turn_starts, start=1):
            fold = self._fold_sign if self._folded(start) else ""
            label = f"{fold}{number} {self._decoder(stops[start])} "
            _write(cells, self._column_of(start, columns), label)
        for marker in self.playback.markers:
            _write(cells, self._column_of(self.playback.stop_at(marker.t), columns), "m")
        return "".join(cells)

    @property
    def _fold_sign(self) -> str:
        return "~" if self.signs.ascii else "⌁"

    def _folded(self, stop: int) -> bool:
        """Whether the silence before this stop is played shorter than it was."""
        stops = self.playback.stops
        return stop > 0 and stops[stop].t - stops[stop - 1].t > FOLD_NS

    def _decoder(self, stop: Stop) -> str:
        """What decoded the turn: "SSD K4"."""
        decoder, draft_len = self.playback.decoders.get((stop.lane, stop.turn), ("", 0))
        return decoder.upper() + (f" K{draft_len}" if decoder != "ar" and draft_len else "")

    def _marked(self, turns: str) -> str:
        """The turns row with the loop and the present position on it."""
        cells, playback = list(turns), self.playback
        columns = len(cells)
        named = [("m", mark) for mark in playback.marks] + [("A", playback.mark_a), ("B", playback.mark_b)]
        for name, stop in named:
            if stop is not None and columns:
                cells[min(self._column_of(stop, columns), columns - 1)] = name
        if playback.at >= 0 and columns:
            cells[min(self._column_of(playback.at, columns), columns - 1)] = self.signs.here
        return "".join(cells)

    def _legend(self, notes: tuple[str, ...]) -> Line:
        loop = " · A-B loop" if self.playback.loop else ""
        line: Line = [(f" {self.signs.here} here{loop}", "muted")]
        return line + [(f" · {safe_text(note, self.signs.ascii)}", "warning") for note in notes]


def _clock(ns: int) -> str:
    minutes, seconds = divmod(ns / 1e9, 60)
    return f"{minutes:.0f}:{seconds:06.3f}"


def _round_ns(stop: Stop) -> int:
    return stop.round.t1 - stop.round.t0 if stop.round is not None else 0


def _write(cells: list[str], at: int, text: str) -> None:
    """Put text into a row of cells, as far as there is room."""
    room = cells[at : at + len(text)]
    cells[at : at + len(room)] = text[: len(room)]
