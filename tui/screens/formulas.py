"""The formulas behind the WHY line, with the figures put in."""

from __future__ import annotations

from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.metrics.why import Why, why
from specmon.tui.screens.sheet import Sheet
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.lines import Line


class FormulasScreen(Sheet):
    """The sentence, then each formula: name, expression, values, result."""

    def __init__(self, setup: Setup, lane: LaneMetrics | None, turn: TurnMetrics | None) -> None:
        super().__init__(setup, "WHY")
        self._lane, self._turn = lane, turn

    def sheet_lines(self, width: int) -> list[Line]:
        if self._lane is None or self._turn is None:
            return [[("Nothing has been decoded yet: press i, type a prompt, Enter sends it.", "text")]]
        return why_lines(why(self._lane, self._turn), width)


def why_lines(because: Why, width: int) -> list[Line]:
    """The sentence in lines of `width` cells, then two lines for each formula."""
    lines: list[Line] = [[(part, "text")] for part in _wrapped(because.text, width)] + [[]]
    for formula in because.formulas:
        lines.append([(formula.name, "title"), (f" = {formula.expression}", "text")])
        values = f"    = {formula.values} = " if formula.values else "    = "
        lines.append([(values, "muted"), (formula.result, "accent")])
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > width and lines[-1]:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
