"""Lay a turn's tokens out in lines, each with the fates of its characters below it.

Tokens only ever arrive at the end, so a flow keeps its lines and lays out what is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from specmon.core.events import Round
from specmon.core.metrics.fates import TokenFate, round_fates
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.widgets.cells import clusters, safe_text, width
from specmon.tui.widgets.drafts import VERDICT_ROLE, piece, verdict, verdict_sign
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line

TAB_CELLS = 4
LONG_ROUNDS = 400  #: of a longer turn only what may be seen is laid out
SEARCHED_ROUNDS = 2_000  #: for the start of a line, each time a screen is drawn
GHOST_CELLS = 12  # a longer rejected token is cut
_BREAKS = re.compile(r"([\n\t])")


class Run(NamedTuple):
    """Neighbouring characters of one token: how many cells they take, their fate's sign and role, their round.

    Plain ASCII keeps together what stays on one row; other characters are a run each, with their combining marks.
    """

    text: str
    width: int
    sign: str
    role: str
    round: int  # position in the turn's rounds, -1 for token one
    ghost: bool = False  # proposed and rejected: not part of the text

    @property
    def signs(self) -> str:
        """The sign below each character, as wide as the text."""
        return self.sign * self.width if len(self.text) >= self.width else self.sign.ljust(self.width)


@dataclass
class TextFlow:
    """The lines of one turn's text at one width (in cells), from round `first` on, which begins a line."""

    width: int
    glyphs: Glyphs
    ledger: Ledger | None = None  # gives the words of rejected proposals; None leaves them out
    first: int = 0
    rows: list[list[Run]] = field(default_factory=lambda: [[]])
    taken: int = 0  # rounds
    _used: int = 0  # cells in the last row
    _round: int | None = None
    _newest: TokenFate | None = None
    _ended: bool = False
    _start: tuple[str, str] | None = None  # sign and role for the next character, where a round starts

    def extend(self, turn: TurnMetrics, most: int | None = None) -> None:
        """Lay out what came since the last call, of at most `most` rounds."""
        self.taken = max(self.taken, self.first)
        stop = turn.n_rounds if most is None else min(self.taken + most, turn.n_rounds)
        for token in self._new_fates(turn, stop):
            if token.round_index != self._round:
                self._round = token.round_index
                self._start = self._start_sign(turn, token)
            if self.ledger is not None and token.fate == "bonus":
                self._add_ghosts(turn.rounds[token.round_index], token.round_index, self.ledger)
            self._add(token)

    def _new_fates(self, turn: TurnMetrics, stop: int) -> Iterator[TokenFate]:
        if self._newest is None and not self.first and turn.prefill is not None:
            self._newest = TokenFate(turn.prefill.text, "first", -1, False)
            yield self._newest
        for position in range(self.taken, stop):
            before = turn.rounds[position - 1] if position else None
            for self._newest in round_fates(before, turn.rounds[position], position):
                yield self._newest
        self.taken = stop
        if turn.end is not None and stop == turn.n_rounds and not self._ended:
            self._ended = True
            if turn.end.text and self._newest is not None:
                yield self._newest._replace(text=turn.end.text)

    def _add_ghosts(self, round_: Round, position: int, ledger: Ledger) -> None:
        """What the draft proposed instead of the bonus, and went on with."""
        for node, token in enumerate(round_.draft):
            judged = verdict(round_, node)
            if judged == "kept":
                continue
            role = VERDICT_ROLE[judged]
            sign = verdict_sign(judged, self.glyphs)
            for cluster, cells in clusters(piece(ledger, token, self.glyphs, GHOST_CELLS)):
                if self._used + cells > self.width:
                    self._new_row()
                self.rows[-1].append(Run(cluster, cells, sign, role, position, ghost=True))
                self._used += cells

    def _add(self, token: TokenFate) -> None:
        text = token.text
        for part in _BREAKS.split(text) if "\n" in text or "\t" in text else (text,):
            if part == "\n":
                if self._used < self.width:
                    self._put(" ", 1, token)
                self._new_row()
            elif part == "\t":
                for _ in range(TAB_CELLS - self._used % TAB_CELLS):
                    self._put(" ", 1, token)
            elif part:
                self._add_safe(safe_text(part, self.glyphs.ascii), token)

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
        """Add ASCII text that fits the row: the usual case, without looking at single characters."""
        row, round = self.rows[-1], token.round_index
        if self._start is not None:
            row.append(Run(text[0], 1, *self._sign(token), round))
            self._used += 1
            text = text[1:]
        if text:
            row.append(Run(text, len(text), *self._sign(token), round))
            self._used += len(text)

    def _put(self, text: str, cells: int, token: TokenFate) -> None:
        if self._used + cells > self.width:
            if text == " ":
                self._new_row()
                return
            self._wrap(cells)
        sign, role = self._sign(token)
        self.rows[-1].append(Run(text, cells, sign, role, token.round_index))
        self._used += cells

    def _start_sign(self, turn: TurnMetrics, token: TokenFate) -> tuple[str, str] | None:
        """Where a round's draft came from; None where nothing of a draft was kept, or none was prepared ahead."""
        if token.fate != "accepted":
            return None
        if token.branch_hit:
            return self.glyphs.hit, "hit"
        missed = turn.origin(token.round_index).kind == "miss"
        return (self.glyphs.miss, "miss") if missed else None

    def _sign(self, token: TokenFate) -> tuple[str, str]:
        """A round's first character says where its draft came from, the others what became of their token."""
        if self._start is not None:
            sign, self._start = self._start, None
            return sign
        if token.fate == "accepted":
            return self.glyphs.accepted, "accepted"
        return (self.glyphs.bonus, "bonus") if token.fate == "bonus" else (self.glyphs.first, "muted")

    def _wrap(self, cells: int) -> None:
        """Start a row for `cells` more; a word that is being written moves along if it is at most half a row long."""
        row = self.rows[-1]
        start = len(row)
        while start and " " not in row[start - 1].text:
            start -= 1
        tail = row[start:]
        kept, word = _last_word(row[start - 1]) if start else (None, None)
        if word is not None:
            tail.insert(0, word)
        moved = sum(run.width for run in tail)
        if start and moved <= min(self.width // 2, self.width - cells):
            row[start:] = []
            if kept is not None:
                row[-1] = kept
        else:
            moved, tail = 0, []
        self._new_row()
        self.rows[-1].extend(tail)
        self._used = moved

    def _new_row(self) -> None:
        self.rows.append([])
        self._used = 0

    def text_line(self, row: int, selected: int | None) -> Line:
        """A row's text; the selected round stands on its own ground."""
        line: Line = []
        for run in self.rows[row]:
            role = run.role if run.ghost else "text"
            line.append((run.text, f"{role}@selected" if _is(run, selected) else role))
        return line

    def round_at(self, row: int, cell: int) -> int | None:
        """Position of the round whose text stands at a cell of a row; None beside the text and for token one."""
        for run in self.rows[row]:
            if cell < run.width:
                return run.round if run.round >= 0 else None
            cell -= run.width
        return None

    def fate_line(self, row: int, selected: int | None) -> Line:
        """The signs below a row's text, as wide as the text."""
        return [
            (run.signs, f"{run.role}@selected" if _is(run, selected) else run.role) for run in self.rows[row]
        ]

    def row_of(self, round: int) -> int | None:
        """The row where a round's text starts; None if it has no visible text."""
        found = None
        for number in range(len(self.rows) - 1, -1, -1):
            row = self.rows[number]
            if row and row[-1].round < round:
                break
            if any(run.round == round for run in row):
                found = number
        return found


def line_start(
    turn: TurnMetrics, cells: int, rows: int, before: int | None = None, within: int = SEARCHED_ROUNDS
) -> int:
    """The newest round that begins a line, at least `rows` rows of text above the round `before` (None: the newest).

    Returns: 0 where none of `within` rounds does.
    """
    before = turn.n_rounds if before is None else before
    newlines = chars = 0
    for position in range(before - 1, max(before - within, 0), -1):
        text = "".join(turn.rounds[position].text)
        newlines += text.count("\n")
        chars += len(text)
        enough = newlines > rows or chars > rows * cells
        if enough and "".join(turn.rounds[position - 1].text).endswith("\n"):
            return position
    return 0


def _last_word(run: Run) -> tuple[Run, Run] | tuple[None, None]:
    """A run with a space in it in two: up to its last space, and the word begun after it; None if it began none."""
    before, _, word = run.text.rpartition(" ")
    if not word or width(word[0]) == 0:
        return None, None
    kept = before + " "
    return run._replace(text=kept, width=width(kept)), run._replace(text=word, width=width(word))


def _is(run: Run, selected: int | None) -> bool:
    return selected is not None and run.round == selected
