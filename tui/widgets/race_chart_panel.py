"""Tokens over lane clock, all lanes on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specmon.core.metrics.race import Standing
from specmon.tui.view import View
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel
from specmon.tui.widgets.moment import race_of
from specmon.tui.widgets.numbers import count, ms
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.race_lane_panel import lane_role, lane_sign

AXIS = 7
NOTE = "one axis for all lanes · where they run in one line their signs take turns"
NOTE_SHORT = "one axis · signs take turns where lines meet"
ROOMY = 120  # columns from which there is room for all of it
LABELS = 12  # cells right of the furthest clock: " ● C 1,024" and more

_Point = tuple[str, str]  # a lane's sign and role
_Grid = list[list[_Point]]
_BLANK = (" ", "text")


@dataclass(frozen=True)
class _End:
    """Where a lane's line ends (`row` from the bottom), and the point it is drawn with."""

    standing: Standing
    point: _Point
    row: int
    cell: int


def render_race_chart(view: View, width: int, height: int) -> list[Line]:
    """Draw each lane's tokens as points over its own clock, from 0 to the furthest clock.

    Where lanes run in one line their signs take turns.
    """
    signs = glyphs(view.ascii)
    race = race_of(view)
    cells, lines = body_width(width, height), body_height(width, height)
    note: Line = [(NOTE if width >= ROOMY else NOTE_SHORT, "muted")]
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
    grid: _Grid = [[_BLANK] * (cells + LABELS) for _ in range(rows)]
    points: dict[tuple[int, int], list[_Point]] = {}  # by row and cell
    ends: list[_End] = []
    for standing in lanes:
        point = (lane_sign(standing, signs), lane_role(standing))
        row, last = 0, 0
        for cell in range(cells):
            clock = round((cell + 1) * furthest / cells)
            if clock > standing.clock_ns and cell:
                break
            row, last = _row(standing.tokens_at(clock), most, rows), cell
            points.setdefault((row, cell), []).append(point)
        ends.append(_End(standing, point, row, last))
    for (row, cell), here in points.items():
        grid[row][cell] = here[cell % len(here)]
    for end in ends:
        grid[end.row][end.cell] = end.point  # no other line hides where one ends
    _write_labels(grid, ends)
    body: list[Line] = []
    for row in range(rows - 1, -1, -1):
        scale = f"{most * (row + 1) // rows:,}"
        body.append([(pad(scale, AXIS - 1, ">") + signs.axis, "muted"), *grid[row]])
    return body


def _write_labels(grid: _Grid, ends: Sequence[_End]) -> None:
    """Each lane's sign, letter and tokens right behind its last point; where another label stands there, nearby."""
    waiting = sorted(ends, key=lambda end: -end.standing.n_tokens)
    waiting = [end for end in waiting if not _write(grid, end, end.row)]
    for end in waiting:
        nearest = sorted(range(len(grid)), key=lambda row: (abs(row - end.row), row))
        next((row for row in nearest if _write(grid, end, row)), None)


def _write(grid: _Grid, end: _End, row: int) -> bool:
    """Put the label into a row if it is free from the lane's last point on, and no other line leads to it."""
    sign, role = end.point
    text = f" {sign} {end.standing.letter} {count(end.standing.n_tokens)}"
    start, stop = end.cell + 1, end.cell + 1 + len(text)
    taken = any(cell != " " for cell, _ in grid[row][start : stop + 1])
    if taken or stop > len(grid[row]) or grid[row][end.cell] not in (_BLANK, end.point):
        return False
    grid[row][start:stop] = [(letter, role) for letter in text]
    return True


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
