"""Lay a turn's tokens out in lines, each with the fates of its characters below it.

Tokens only ever arrive at the end, so a flow keeps its lines and lays out what is new.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from specmon.core.metrics.fates import TokenFate
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.widgets.cells import clusters, safe_text, width
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line

TAB_CELLS = 4
_BREAKS = re.compile(r"([\n\t])")


class Cell(NamedTuple):
    """One character with its combining marks: how wide it is, its fate's sign and role, and its round."""

    text: str
    width: int
    sign: str
    role: str
    round: int  # position in the turn's rounds, -1 for token one


@dataclass
class TextFlow:
    """The lines of one turn's text at one width (in cells)."""

    width: int
    glyphs: Glyphs
    rows: list[list[Cell]] = field(default_factory=lambda: [[]])
    taken: int = 0
    _used: int = 0  # cells in the last row
    _round: int | None = None
    _start: tuple[str, str] | None = None  # sign and role for the next character, where a round starts

    def extend(self, turn: TurnMetrics) -> None:
        """Lay out the turn's tokens that came since the last call."""
        fates = turn.token_fates()
        for token in fates[self.taken :]:
            if token.round_index != self._round:
                self._round = token.round_index
                self._start = self._start_sign(turn, token)
            self._add(token)
        self.taken = len(fates)

    def _add(self, token: TokenFate) -> None:
        for piece in _BREAKS.split(token.text):
            if piece == "\n":
                if self._used < self.width:
                    self._put(" ", 1, token)
                self._new_row()
            elif piece == "\t":
                for _ in range(TAB_CELLS - self._used % TAB_CELLS):
                    self._put(" ", 1, token)
            elif piece:
                self._add_safe(safe_text(piece, self.glyphs.ascii), token)

    def _add_safe(self, text: str, token: TokenFate) -> None:
        row = self.rows[-1]
        if text.isascii() and self._used + len(text) <= self.width:
            self._put_whole(text, token)
            return
        for cluster, cells in clusters(text):
            if row and text and width(text[0]) == 0:
                row[-1] = row[-1]._replace(text=row[-1].text + cluster.lstrip())
                text = ""
            else:
                self._put(cluster, cells, token)

    def _put_whole(self, text: str, token: TokenFate) -> None:
        """Add ASCII text that fits the row: the usual case, without looking at single widths."""
        first, others = self._sign(token), self._sign(token)
        round = token.round_index
        self.rows[-1].append(Cell(text[0], 1, *first, round))
        self.rows[-1] += [Cell(char, 1, *others, round) for char in text[1:]]
        self._used += len(text)

    def _put(self, text: str, cells: int, token: TokenFate) -> None:
        if self._used + cells > self.width:
            if text == " ":
                self._new_row()
                return
            self._wrap()
        sign, role = self._sign(token)
        self.rows[-1].append(Cell(text, cells, sign, role, token.round_index))
        self._used += cells

    def _start_sign(self, turn: TurnMetrics, token: TokenFate) -> tuple[str, str] | None:
        """Where a round's draft came from; None where nothing of a draft was kept, or none was prepared ahead."""
        if token.fate != "accepted":
            return None
        source = turn.origin(token.round_index).kind
        if source == "hit":
            return self.glyphs.hit, "hit"
        return (self.glyphs.miss, "miss") if source == "miss" else None

    def _sign(self, token: TokenFate) -> tuple[str, str]:
        """A round's first character says where its draft came from, the others what became of their token."""
        if self._start is not None:
            sign, self._start = self._start, None
            return sign
        if token.fate == "accepted":
            return self.glyphs.accepted, "accepted"
        return (self.glyphs.bonus, "bonus") if token.fate == "bonus" else (self.glyphs.first, "muted")

    def _wrap(self) -> None:
        """Start a row; a word that is being written moves along if it is at most half a row long."""
        row = self.rows[-1]
        start = len(row)
        while start and row[start - 1].text != " ":
            start -= 1
        tail = row[start:]
        if not start or sum(cell.width for cell in tail) > self.width // 2:
            tail = []
        else:
            del row[start:]
        self._new_row()
        self.rows[-1].extend(tail)
        self._used = sum(cell.width for cell in tail)

    def _new_row(self) -> None:
        self.rows.append([])
        self._used = 0

    def text_line(self, row: int, selected: int | None) -> Line:
        """A row's text; the selected round stands on its own ground."""
        return [(cell.text, "text@selected" if _is(cell, selected) else "text") for cell in self.rows[row]]

    def fate_line(self, row: int, selected: int | None) -> Line:
        """The signs below a row's text, as wide as the text."""
        line: Line = []
        for cell in self.rows[row]:
            sign = cell.sign + " " * (cell.width - 1)
            line.append((sign, f"{cell.role}@selected" if _is(cell, selected) else cell.role))
        return line

    def row_of(self, round: int) -> int | None:
        """The row where a round's text starts; None if it has no visible text."""
        found = None
        for number in range(len(self.rows) - 1, -1, -1):
            row = self.rows[number]
            if row and row[-1].round < round:
                break
            if any(cell.round == round for cell in row):
                found = number
        return found


def _is(cell: Cell, selected: int | None) -> bool:
    return selected is not None and cell.round == selected
