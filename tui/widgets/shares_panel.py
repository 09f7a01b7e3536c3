"""Panel 4: where a round's time goes, and what that says about drafting more, less or ahead."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core.metrics.formulas import Formula
from specmon.core.metrics.round_time import RoundTime, round_time
from specmon.core.metrics.spans import Shares
from specmon.core.metrics.text import launches
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.metrics.turn_time import turn_time
from specmon.core.metrics.why import why
from specmon.tui.view import View
from specmon.tui.widgets.bars import bar, stacked
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.numbers import ms, percent
from specmon.tui.widgets.panel import Panel

LABEL = 16
FIGURE = 11
PERCENT = 6
#: The formulas of WHY that answer "what would make it faster", the most telling first.
SHOWN = (
    "SSD ceiling over SD",
    "SSD over SD now (modelled)",
    "break-even τ",
    "τ per ms (modelled)",
    "K favoured (modelled)",
    "floor",
)


@dataclass(frozen=True)
class _Part:
    """One share of the round: its name, its time (ns), and how it is drawn."""

    name: str
    ns: int
    sign: str
    role: str


def render_shares(view: View, width: int, height: int) -> list[Line]:
    """Draw the mean of the last rounds of the view's turn, taken apart."""
    signs = glyphs(view.ascii)
    lane, turn = lane_of(view), turn_of(view)
    time = None if turn is None else round_time(turn, view.last_rounds)
    if lane is None or turn is None or time is None:
        title = Title(number=4, name="where the round goes", note=[])
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs)
    given = "" if time.launches is None else f", {launches(time.launches)}"
    note: Line = [(f"mean {ms(time.round_ns)} ms, last {time.n_rounds} rounds{given}", "muted")]
    cells, lines = body_width(width, height), body_height(width, height)
    rows = _stacks(view, turn, time, cells, signs) if lines >= 6 else []
    rows += _share_rows(turn, time, cells, signs)
    found = {formula.name: formula for formula in why(lane, turn, view.last_rounds).formulas}
    formulas = [_formula(found[name], cells) for name in SHOWN if name in found]
    body = rows[:lines] + formulas[: max(lines - len(rows), 0)]
    return in_panel(Title(number=4, name="where the round goes", note=note), body, width, height, signs)


def _stacks(view: View, turn: TurnMetrics, time: RoundTime, cells: int, signs: Glyphs) -> list[Line]:
    """The mean round as one stacked bar, and below it the selected round, drawn to the same length."""
    rows = [_stack(f"last {time.n_rounds}", time.shares, turn, cells, signs)]
    chosen = view.pointed_at
    if chosen is not None and 0 <= chosen < turn.n_rounds:
        one = turn_time(turn.rounds, len(turn.lane.devices), chosen, chosen + 1).shares
        rows.append(_stack(f"round {turn.rounds[chosen].index}", one, turn, cells, signs))
    return rows


def _stack(name: str, shares: Shares, turn: TurnMetrics, cells: int, signs: Glyphs) -> Line:
    room = max(cells - LABEL - 1, 0)
    parts = _parts(turn, shares, signs)
    sizes = stacked([part.ns for part in parts], room)
    bars: Line = [(part.sign * size, part.role) for part, size in zip(parts, sizes, strict=True)]
    return [(pad(name, LABEL + 1), "muted"), *bars]


def _parts(turn: TurnMetrics, shares: Shares, signs: Glyphs) -> list[_Part]:
    parts = [_Part("verify", shares.verify_ns, signs.spans["verify"], "verify")]
    if turn.lane.decoder != "ar":
        parts.append(_Part("draft exposed", shares.draft_ns, signs.spans["draft"], "draft"))
    parts.append(_Part("accept+handoff", shares.accept_ns, signs.spans["accept"], "accept"))
    if shares.wait_ns:
        parts.append(_Part("waiting", shares.wait_ns, signs.spans["wait"], "wait"))
    return [*parts, _Part("host and gaps", shares.other_ns, signs.dashes, "muted")]


def _share_rows(turn: TurnMetrics, time: RoundTime, cells: int, signs: Glyphs) -> list[Line]:
    return [_share(part, time, cells, signs) for part in _parts(turn, time.shares, signs)]


def _share(part: _Part, time: RoundTime, cells: int, signs: Glyphs) -> Line:
    fraction = part.ns / time.shares.total_ns if time.shares.total_ns else 0.0
    room = cells - LABEL - FIGURE - PERCENT - 3
    line: Line = [(f"{part.sign} ", part.role), (pad(part.name, LABEL - 2), "muted")]
    line.append((f"{ms(part.ns / time.n_rounds):>8} ms ", "text"))
    if room >= 4:
        line.append((pad(bar(fraction, room, signs), room), part.role))
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
