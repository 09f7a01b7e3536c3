"""Sheets over a race: where its outputs first differ, and the formulas behind its WHY line."""

from __future__ import annotations

from specmon.core.metrics.race import Race
from specmon.core.metrics.race_tokens import TokenRow, difference_at, tokens_around
from specmon.core.metrics.why import Why
from specmon.tui.screens.formulas import why_lines
from specmon.tui.screens.sheet import Sheet
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import clip, pad, safe_text
from specmon.tui.widgets.lines import Line

INDEX_CELLS = 6


class DifferenceSheet(Sheet):
    """The tokens of all lanes side by side, around the first that differs."""

    def __init__(self, setup: Setup, race: Race) -> None:
        super().__init__(setup, "FIRST DIFFERENCE")
        self._race = race

    def sheet_lines(self, width: int) -> list[Line]:
        index = difference_at(self._race)
        if index is None:
            return [[("The outputs do not differ.", "text")]]
        rows = self._race.standings
        cells = max((width - INDEX_CELLS) // len(rows) - 1, 8)
        heads = " ".join(pad(clip(f"{row.letter} {row.label}", cells), cells) for row in rows)
        lines: list[Line] = [
            [(f"Token {index} (from 0) is the first that differs; # is a token's id.", "text")],
            [],
            [(pad("token", INDEX_CELLS), "muted"), (heads, "title")],
        ]
        return lines + [self._row(row, index, cells) for row in tokens_around(self._race, index)]

    def _row(self, row: TokenRow, index: int, cells: int) -> Line:
        line: Line = [
            (pad(f"{row.index}", INDEX_CELLS - 1, ">") + " ", "accent" if row.index == index else "muted")
        ]
        for token, differs in zip(row.tokens, row.differs, strict=True):
            text = (
                "-"
                if token is None
                else f"{_quoted(token[1], self.setup.ascii)} #{'?' if token[0] is None else token[0]}"
            )
            mark = "≠ " if differs and not self.setup.ascii else "! " if differs else "  "
            role = "error" if differs else "muted" if token is None else "text"
            line.append((pad(clip(mark + text, cells), cells) + " ", role))
        return line


def _quoted(text: str, ascii: bool) -> str:
    return f"'{safe_text(text, ascii, newline='↵' if not ascii else ' ')}'"


class RaceWhySheet(Sheet):
    """The sentence, then each formula with its figures."""

    def __init__(self, setup: Setup, why: Why) -> None:
        super().__init__(setup, "WHY")
        self._why = why

    def sheet_lines(self, width: int) -> list[Line]:
        return why_lines(self._why, width)
