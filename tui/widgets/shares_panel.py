"""Panel 4: where a round's time goes, and what that says about drafting more, less or ahead."""

from __future__ import annotations

from specmon.core.metrics.formulas import Formula
from specmon.core.metrics.round_time import RoundTime, round_time
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.metrics.why import why
from specmon.tui.view import View
from specmon.tui.widgets.bars import bar
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.numbers import ms, percent
from specmon.tui.widgets.panel import Panel

LABEL = 14
FIGURE = 11
PERCENT = 6
#: The formulas of WHY that answer "what would make it faster", the most telling first.
SHOWN = ("SSD ceiling over SD", "SSD over SD now (modelled)", "break-even τ", "τ per ms (modelled)", "floor")


def render_shares(view: View, width: int, height: int) -> list[Line]:
    """Draw the mean of the last rounds of the view's turn, taken apart."""
    signs = glyphs(view.ascii)
    lane, turn = lane_of(view), turn_of(view)
    time = None if turn is None else round_time(turn, view.last_rounds)
    if lane is None or turn is None or time is None:
        title = Title(number=4, name="where the round goes", note=[])
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs)
    launches = "" if time.launches is None else f", {time.launches:.0f} host launches"
    note: Line = [(f"mean {ms(time.round_ns)} ms, last {time.n_rounds} rounds{launches}", "muted")]
    cells, lines = body_width(width, height), body_height(width, height)
    rows = _share_rows(turn, time, cells, signs)
    found = {formula.name: formula for formula in why(lane, turn, view.last_rounds).formulas}
    formulas = [_formula(found[name], cells) for name in SHOWN if name in found]
    body = rows[:lines] + formulas[: max(lines - len(rows), 0)]
    return in_panel(Title(number=4, name="where the round goes", note=note), body, width, height, signs)


def _share_rows(turn: TurnMetrics, time: RoundTime, cells: int, signs: Glyphs) -> list[Line]:
    parts = time.shares
    rows = [("verify", parts.verify_ns, "verify")]
    if turn.lane.decoder != "ar":
        rows.append(("draft exposed", parts.draft_ns, "draft"))
    rows.append(("accept+handoff", parts.accept_ns, "accept"))
    if parts.wait_ns:
        rows.append(("waiting", parts.wait_ns, "wait"))
    rows.append(("host and gaps", parts.other_ns, "muted"))
    return [_share(label, ns, time, role, cells, signs) for label, ns, role in rows]


def _share(label: str, ns: int, time: RoundTime, role: str, cells: int, signs: Glyphs) -> Line:
    fraction = ns / time.shares.total_ns if time.shares.total_ns else 0.0
    room = cells - LABEL - FIGURE - PERCENT - 3
    line: Line = [(pad(label, LABEL), "muted"), (f"{ms(ns / time.n_rounds):>8} ms ", "text")]
    if room >= 4:
        line.append((pad(bar(fraction, room, signs), room), role))
    return [*line, (f"{percent(fraction):>{PERCENT}}", "title")]


def _formula(formula: Formula, cells: int) -> Line:
    name: Line = [(f"{formula.name} ", "muted")]
    if formula.values and len(formula.name) + len(formula.values) + len(formula.result) + 4 <= cells:
        name.append((f"{formula.values} = ", "text"))
    return [*name, (formula.result, "title")]


class SharesPanel(Panel):
    """The mean round, taken apart."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_shares(view, width, height)
