"""The whole recording in a few rows: where it was slow, where it missed, its turns, and where you are."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass, field
from statistics import median

from specmon.tui.feeds.playback import Playback
from specmon.tui.feeds.stops import FOLD_NS
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line, fit
from specmon.tui.widgets.numbers import clock

LABEL = 10  # cells of the row labels in the tall form
TALL_ROWS = 5
SLOW = 4.0  #: a round this many times the median fills its column


@dataclass
class FileStrip:
    """Draws a playback's strip; the parts that only change with the file or the width are kept."""

    playback: Playback
    signs: Glyphs
    _kept: tuple[tuple[int, int], list[str]] = field(default=((-1, -1), []))

    def lines(self, width: int, height: int, notes: tuple[str, ...] = (), alert: str = "") -> list[Line]:
        """`height` rows: 3 (times and turns) or 5 (misses and a legend too); `alert` stands in the first."""
        tall = height >= TALL_ROWS
        label = LABEL if tall else 1
        columns = max(width - label, 1)
        if self._kept[0] != (len(self.playback.stops), columns):
            rows = [self._times(columns), self._misses(columns), self._turns(columns)]
            self._kept = ((len(self.playback.stops), columns), rows)
        times, misses, turns = self._kept[1]
        lines = [self._title(width, columns, tall, alert), self._row("ms/round", label, times, "verify")]
        if tall:
            lines.append(self._row("misses", label, misses, "miss"))
        lines.append(self._row("turns", label, self._marked(turns), "muted"))
        if tall:
            lines.append(self._legend(notes))
        return lines

    def _title(self, width: int, columns: int, tall: bool, alert: str) -> Line:
        """What a column is; in the low form also the time, which the status line has no room for."""
        each = -(-len(self.playback.stops) // columns)
        basis = f"1 column = {each:,} round{'s' if each != 1 else ''}, worst shown"
        note = f" {basis} · gaps over {FOLD_NS // 10**9} s folded {self._fold_sign} {self.signs.rule}"
        name: Line = [(f"{self.signs.rule} ", "border"), ("WHOLE FILE " if tall else self._time(), "title")]
        if alert:
            name.append((f"{self.signs.rule} {alert} ", "warning"))
        return [*fit(name, width - len(note), self.signs.rule, "border"), (note, "muted")]

    def _time(self) -> str:
        here = self.playback.here
        return f"{clock(here.t if here else 0)}/{clock(self.playback.duration_ns)} "

    @staticmethod
    def _row(name: str, label: int, text: str, role: str) -> Line:
        return [(f" {name:<{label - 1}}"[:label], "muted"), (text, role)]

    def _column_of(self, stop: int, columns: int) -> int:
        stops = len(self.playback.stops)
        return stop if stops <= columns else stop * columns // stops

    def _columns(self, columns: int) -> list[range]:
        """The stops of each column."""
        stops = len(self.playback.stops)
        columns = min(columns, stops)
        bounds = [-(-column * stops // columns) for column in range(columns + 1)] if columns else [0]
        return [range(first, end) for first, end in itertools.pairwise(bounds)]

    def _times(self, columns: int) -> str:
        worst = [self.playback.stops.longest_ns(c.start, c.stop) for c in self._columns(columns)]
        timed = [ns for ns in worst if ns]
        top = min(max(timed), SLOW * median(timed)) if timed else 1
        return "".join(self._level(ns / top) if ns else " " for ns in worst)

    def _level(self, fraction: float) -> str:
        levels = self.signs.levels
        return levels[min(int(fraction * len(levels)), len(levels) - 1)]

    def _misses(self, columns: int) -> str:
        misses = self.playback.stops.misses
        missed = (bisect_left(misses, c.start) < bisect_left(misses, c.stop) for c in self._columns(columns))
        return "".join(self.signs.miss if miss else self.signs.rest for miss in missed)

    def _turns(self, columns: int) -> str:
        """A rule with each turn's number and decoder at its start, folded gaps and the user's marks."""
        stops = self.playback.stops
        cells = [self.signs.rule] * min(columns, len(stops))
        for fold in stops.folds:
            cells[self._column_of(fold, columns)] = self._fold_sign
        free = 0
        for number, (start, _) in enumerate(stops.turns, start=1):
            column = self._column_of(start, columns)
            if column < free:
                continue  # its label would cover the one before
            folded = self._fold_sign if stops.is_folded(start) else ""
            label = f"{folded}{number} {self._decoder(start)} "
            _write(cells, column, label)
            free = column + len(label)
        for marker in stops.markers:
            _write(cells, self._column_of(stops.at_time(marker.t), columns), "m")
        return "".join(cells)

    @property
    def _fold_sign(self) -> str:
        return "~" if self.signs.ascii else "⌁"

    def _decoder(self, stop: int) -> str:
        """What decoded the turn: "SSD K4"; "race" where several lanes did."""
        stops = self.playback.stops
        here = stops[stop]
        if sum((lane, here.turn) in stops.decoders for lane in stops.lanes) > 1:
            return "race"
        decoder, draft_len = stops.decoders.get((here.lane, here.turn), ("", 0))
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


def _write(cells: list[str], at: int, text: str) -> None:
    """Put text into a row of cells, as far as there is room."""
    room = cells[at : at + len(text)]
    cells[at : at + len(room)] = text[: len(room)]
