"""The WHY line: what bounds the round now, in words with figures."""

from __future__ import annotations

from specmon.core.metrics.why import why
from specmon.tui.view import View
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.cells import width as cells_of
from specmon.tui.widgets.glyphs import glyphs
from specmon.tui.widgets.lines import Line, fit, spread
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.panel import Panel


def render_why(view: View, width: int, height: int = 1) -> list[Line]:
    """Draw the sentence, or its short form where that is too wide, and the key that opens the formulas."""
    signs = glyphs(view.ascii)
    lane, turn = lane_of(view), turn_of(view)
    long = short = "waiting for the first request"
    if lane is not None and turn is not None:
        reason = why(lane, turn, view.last_rounds)
        long, short = safe_text(reason.text, signs.ascii), safe_text(reason.short, signs.ascii)
    keys: Line = [("[e]", "accent"), (" formulas " if width >= 120 else " ", "muted")]
    room = width - 6 - sum(cells_of(text) for text, _ in keys)
    text: Line = [(" WHY ", "accent"), (long if cells_of(long) <= room else short, "text")]
    line = spread(text, keys, width)
    return [fit(line, width, ellipsis=signs.ellipsis), *([[(" " * width, "text")]] * (height - 1))][:height]


class WhyLine(Panel):
    """One line, below the status line."""

    DEFAULT_CSS = "WhyLine { height: 1; }"

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_why(view, width, height)
