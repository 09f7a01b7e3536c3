"""Tokens over lane clock, all lanes on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from specmon.core.metrics.race import Standing
from specmon.tui.view import View
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel
from specmon.tui.widgets.moment import race_of
from specmon.tui.widgets.numbers import count, ms
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.race_lane_panel import lane_role

AXIS = 7
LABELS = 8


def render_race_chart(view: View, width: int, height: int) -> list[Line]:
    """Draw each lane's tokens as points over its own clock, from 0 to the furthest clock."""
    signs = glyphs(view.ascii)
    race = race_of(view)
    cells, lines = body_width(width, height), body_height(width, height)
    note: Line = [("one axis for all lanes", "muted")]
    title = Title(number=None, name="tokens over lane clock", note=note)
    lanes = [standing for standing in race.standings if standing.clock_ns > 0]
    if not lanes or lines < 1:
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs)
    axis_rows = 1 if lines >= 5 else 0
    body = _plot(lanes, max(cells - AXIS - LABELS, 1), max(lines - axis_rows, 1), signs)
    if axis_rows:
        body.append(_clock_axis(lanes, cells))
    return in_panel(title, body, width, height, signs)


def _plot(lanes: Sequence[Standing], cells: int, rows: int, signs: Glyphs) -> list[Line]:
    furthest = max(standing.clock_ns for standing in lanes)
    most = max(max(standing.n_tokens for standing in lanes), 1)
    grid: list[list[tuple[str, str]]] = [[(" ", "text")] * cells for _ in range(rows)]
    ends = _ends(lanes, most, rows)
    for number, standing in enumerate(lanes):
        role, sign = lane_role(standing), signs.series[number % len(signs.series)]
        for cell in range(cells):
            clock = round((cell + 1) * furthest / cells)
            if clock > standing.clock_ns and cell:
                break
            tokens = standing.tokens_at(clock)
            grid[_row(tokens, most, rows)][cell] = (sign, role)
    body: list[Line] = []
    for row in range(rows - 1, -1, -1):
        scale = f"{most * (row + 1) // rows:,}"
        body.append(
            [(pad(scale, AXIS - 1, ">") + signs.axis, "muted"), *grid[row], ends.get(row, ("", "text"))]
        )
    return body


def _ends(lanes: Sequence[Standing], most: int, rows: int) -> dict[int, tuple[str, str]]:
    """Each lane's letter and tokens at the right, one a row, the lane with most tokens on top."""
    ends: dict[int, tuple[str, str]] = {}
    free, below = rows, min(len(lanes), rows)
    for standing in sorted(lanes, key=lambda standing: -standing.n_tokens)[:rows]:
        below -= 1
        free = max(min(_row(standing.n_tokens, most, rows), free - 1), below)
        ends[free] = (f" {standing.letter} {count(standing.n_tokens)}", lane_role(standing))
    return ends


def _row(tokens: int, most: int, rows: int) -> int:
    """The row, from the bottom, whose band holds this many tokens."""
    return min(max(-(-tokens * rows // most) - 1, 0), rows - 1)


def _clock_axis(lanes: Sequence[Standing], cells: int) -> Line:
    end = f"{ms(max(standing.clock_ns for standing in lanes), 0)} ms"
    room = max(cells - AXIS - LABELS - len(end), 0)
    return [(pad("", AXIS) + pad("0", room) + end, "muted")]


class RaceChartPanel(Panel):
    """The race as curves."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_race_chart(view, width, height)
