"""Panel 2: the rounds as a list, newest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from specmon.core.metrics.acceptance import drafted_len
from specmon.core.metrics.spans import overlap, verify_ns
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.cells import pad, safe_text
from specmon.tui.widgets.cells import width as cells_of
from specmon.tui.widgets.drafts import VERDICT_ROLE, origin_segment, piece, verdict, verdict_sign
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, fit, in_panel, on_ground
from specmon.tui.widgets.moment import turn_of
from specmon.tui.widgets.numbers import count, ms
from specmon.tui.widgets.pointing import PointingPanel

DRAFT_CELLS = 16  # least width of the draft column
KEYS = "n next miss · 0 next a=0 · S slowest · p pin · / filter"
ROWS_ABOVE = 2  # title and heads, above the first round
HINTS_FROM = 8  # lines from which the last one tells of the keys
SEARCHED = 5_000  #: rounds a filter looks at for one drawing


@dataclass(frozen=True)
class _Row:
    """What a cell of the list is made from."""

    view: View
    turn: TurnMetrics
    position: int
    signs: Glyphs


@dataclass(frozen=True)
class _Column:
    """One column; of several that do not fit, the one with the largest `rank` goes first."""

    head: str
    cells: int
    rank: int
    cell: Callable[[_Row, int], Line]
    right: bool = False


def render_rounds(view: View, width: int, height: int, *, still: bool = False) -> list[Line]:
    """Draw the newest rounds of the view's turn, or those around the one pointed at; not for the mouse if `still`."""
    signs = glyphs(view.ascii)
    turn = turn_of(view)
    note: Line = []
    body: list[Line] = [[("no round yet", "muted")]]
    if turn is not None and turn.rounds:
        note = _note(view, turn)
        positions = listed(view, turn, body_height(width, height), still=still)
        body = _table(view, turn, positions, body_width(width, height), body_height(width, height), signs)
    return in_panel(Title(number=2, name="rounds", note=note), body, width, height, signs)


def _note(view: View, turn: TurnMetrics) -> Line:
    follow = view.pointing or "newest first"
    if view.filter is not None:
        only = safe_text(view.filter.text, view.ascii)
        return [
            ("only ", "muted"),
            (only, "accent"),
            (f" of {count(turn.n_rounds)} rounds · / changes", "muted"),
        ]
    pace = "" if turn.ms_per_round is None else f"{turn.ms_per_round:.2f} ms a round · "
    return [
        (f"{pace}{count(turn.n_rounds)} rounds · ", "muted"),
        (follow, "accent" if view.pointing else "muted"),
    ]


def _table(
    view: View, turn: TurnMetrics, positions: list[int], cells: int, lines: int, signs: Glyphs
) -> list[Line]:
    columns = _columns_for(turn, cells)
    fixed = sum(column.cells + 1 for column in columns if column.cells)
    draft_cells = max(cells - fixed - 1, 1)
    head: Line = [(_head(column, column.cells or draft_cells), "muted") for column in columns]
    rows = [_row(_Row(view, turn, position, signs), columns, draft_cells, cells) for position in positions]
    if not rows and view.filter is not None:
        rows = [[(f"none of the last {min(turn.n_rounds, SEARCHED):,} rounds", "muted")]]
    rows += [[]] * (_room(lines) - len(rows))
    return [head, *rows, *([[(KEYS, "muted")]] if lines >= HINTS_FROM else [])]


def _room(lines: int) -> int:
    """How many rounds a body of so many lines lists."""
    return max(lines - 1 - (lines >= HINTS_FROM), 0)


def listed(view: View, turn: TurnMetrics, lines: int, *, still: bool) -> list[int]:
    """The rounds in a body of `lines`, newest first: see `render_rounds`; with a filter, those it lets by."""
    newest, shown = turn.n_rounds - 1, _room(lines)
    around = view.selected if still else view.pointed_at
    wanted = view.filter
    if wanted is not None:
        top = newest if around is None else min(around, newest)
        found = (p for p in range(top, max(top - SEARCHED, -1), -1) if wanted(turn.rounds[p]))
        return list(islice(found, shown))
    top = newest
    if around is not None and newest - around >= shown:
        top = min(around + shown // 2, newest)
    return list(range(top, max(top - shown, -1), -1))


def _head(column: _Column, cells: int) -> str:
    return pad(column.head, cells, ">" if column.right else "<") + " "


def _row(row: _Row, columns: list[_Column], draft_cells: int, cells: int) -> Line:
    line: Line = []
    for column in columns:
        room = column.cells or draft_cells
        content = column.cell(row, room)
        if column.right:
            content = [(" " * (room - sum(cells_of(text) for text, _ in content)), "text"), *content]
        line += [*fit(content, room, ellipsis=row.signs.ellipsis), (" ", "text")]
    return on_ground(fit(line, cells), "selected") if row.position == row.view.pointed_at else line


def _columns_for(turn: TurnMetrics, cells: int) -> list[_Column]:
    columns = [
        column
        for column in COLUMNS
        if turn.lane.decoder != "ar" or column.head not in ("draft", "a/K", "from")
    ]
    if len(turn.lane.devices) < 2:
        columns = [column for column in columns if column.head != "ovl"]
    while sum((column.cells or DRAFT_CELLS) + 1 for column in columns) > cells and len(columns) > 2:
        columns.remove(max(columns, key=lambda column: column.rank))
    return columns


def _number(row: _Row, cells: int) -> Line:
    mark = row.signs.pointer if row.position == row.view.pointed_at else " "
    return [(mark, "accent"), (f"{row.turn.rounds[row.position].index:>{max(cells - 1, 1)}}", "text")]


def _kv(row: _Row, _: int) -> Line:
    kv_len = row.turn.rounds[row.position].kv_len
    return [(f"{kv_len[0]}" if kv_len else "n/a", "muted")]


def _draft(row: _Row, cells: int) -> Line:
    round_ = row.turn.rounds[row.position]
    line: Line = []
    room = max(cells // 2, 4)
    for node, token in enumerate(round_.draft):
        judged = verdict(round_, node)
        text = piece(row.view.ledger, token, row.signs, room)
        line.append((f"{verdict_sign(judged, row.signs)}{text} ", VERDICT_ROLE[judged]))
    return line


def _bonus(row: _Row, cells: int) -> Line:
    bonus = row.turn.rounds[row.position].bonus
    redacted = row.turn.rounds[row.position].emitted[-1:] == (None,)
    if bonus is None and not redacted:
        return [(row.signs.unreached, "muted")]
    return [(piece(row.view.ledger, bonus, row.signs, cells), "bonus")]


def _accepted(row: _Row, _: int) -> Line:
    round_ = row.turn.rounds[row.position]
    return [
        (f"{round_.accepted_len}/{drafted_len(round_)}", "accepted" if round_.accepted_len else "rejected")
    ]


def _from(row: _Row, _: int) -> Line:
    return [origin_segment(row.turn.origin(row.position), row.signs)]


def _ms(row: _Row, _: int) -> Line:
    round_ = row.turn.rounds[row.position]
    return [(ms(round_.t1 - round_.t0), "title")]


def _verify(row: _Row, _: int) -> Line:
    return [(ms(verify_ns(row.turn.rounds[row.position])), "verify")]


def _overlap(row: _Row, _: int) -> Line:
    both = overlap(row.turn.rounds[row.position : row.position + 1], len(row.turn.lane.devices))
    if both is None:
        return [("n/a", "muted")]
    wasted = both.wasted_ns > both.used_ns
    return [
        (ms(both.total_ns), "wasted" if wasted else "overlap"),
        (row.signs.times if wasted else " ", "wasted"),
    ]


COLUMNS = (
    _Column("#", 6, 0, _number, right=True),
    _Column("KV", 6, 6, _kv, right=True),
    _Column("draft", 0, 0, _draft),
    _Column("bonus", 8, 5, _bonus),
    _Column("a/K", 5, 1, _accepted),
    _Column("from", 7, 3, _from),
    _Column("ms", 7, 2, _ms, right=True),
    _Column("verify", 7, 7, _verify, right=True),
    _Column("ovl", 6, 8, _overlap, right=True),
)


class RoundsPanel(PointingPanel):
    """The list of rounds; it stays where it is while the mouse goes over its rows."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_rounds(view, width, height, still=self.has_mouse)

    def round_at(self, x: int, y: int) -> int | None:
        turn = None if self.view is None else turn_of(self.view)
        if self.view is None or turn is None or not turn.rounds:
            return None
        rows = listed(self.view, turn, body_height(*self.size), still=self.has_mouse)
        row = y - ROWS_ABOVE
        return rows[row] if 0 <= row < len(rows) else None
