"""The FAIR line of a race: what the lane clocks count, and what the wall clock adds to them."""

from __future__ import annotations

from specmon.core.metrics.race import standings
from specmon.tui.view import View
from specmon.tui.widgets.lines import Line, fit, line_width
from specmon.tui.widgets.panel import Panel

RULE = "lanes take turns of ≥ 8 rounds and ≥ 50 ms; each clock counts only its own rounds (prefill apart)."
SHORT_RULE = "clocks count own rounds only · turns ≥ 8 rounds, 50 ms"


def render_fair(view: View, width: int, height: int = 1) -> list[Line]:
    """Draw the rule, and wall time = lanes + switching."""
    race = standings(view.ledger, view.turn)
    lanes_s = (race.wall_ns - race.switching_ns) / 1e9
    long = f" Wall {race.wall_ns / 1e9:.2f} s = {lanes_s:.2f} s lanes + {race.switching_ns / 1e9:.2f} s switching."
    line: Line = [(" FAIR ", "accent"), (RULE, "text"), (long, "muted")]
    if line_width(line) > width:
        line = [(" FAIR ", "accent"), (SHORT_RULE, "text"), (f" · wall {race.wall_ns / 1e9:.2f} s", "muted")]
    return [fit(line, width), *([[(" " * width, "text")]] * (height - 1))][:height]


class FairLine(Panel):
    """One line, below a race's status line."""

    DEFAULT_CSS = "FairLine { height: 1; }"

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_fair(view, width, height)
