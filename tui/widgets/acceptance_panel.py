"""Panel 8: how much of what was drafted is kept, position by position, and how often a branch hit."""

from __future__ import annotations

from itertools import zip_longest

from specmon.core.metrics.acceptance import HitsAfter
from specmon.core.metrics.round_time import round_time
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.roofline import break_even_tau
from specmon.tui.view import View
from specmon.tui.widgets.bars import bar
from specmon.tui.widgets.cells import width as cells_of
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import (
    Line,
    Title,
    body_height,
    body_width,
    in_panel,
    is_framed,
    line_width,
)
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.numbers import count, short
from specmon.tui.widgets.panel import Panel

HIT_BAR = 20  # cells of a hit rate's bar, at most


def render_acceptance(view: View, width: int, height: int) -> list[Line]:
    """Draw the view's turn: a table by position where there is height, else its rates in one line."""
    signs = glyphs(view.ascii)
    turn = turn_of(view)
    if turn is None:
        return in_panel(
            Title(number=8, name="acceptance", note=[]), [[("no turn yet", "muted")]], width, height, signs
        )
    if is_framed(width, height):
        note: Line = [("this turn", "muted")]
        body = _table(turn, body_width(width, height), height - 2, signs)
        return in_panel(Title(number=8, name="acceptance", note=note), body, width, height, signs)
    note = [("KV ", "muted"), (_kv_range(turn, signs), "text")]
    foot = _foot(turn) if body_height(width, height) > 1 else []
    body = [_short(view, turn, width, alone=not foot), *foot]
    return in_panel(Title(number=8, name="acceptance", note=note), body, width, height, signs)


def _table(turn: TurnMetrics, cells: int, rows: int, signs: Glyphs) -> list[Line]:
    head: Line = [
        *_tau(turn),
        ("   ", "text"),
        (count(turn.n_rounds), "text"),
        (f" {_rounds(turn)}   ", "muted"),
    ]
    head += [(count(turn.n_tokens), "text"), (" tokens", "muted")]
    foot = _foot(turn)
    table = _positions(turn, cells, signs)
    return [head, *table[: max(rows - 1 - len(foot), 0)], *foot]


def _rounds(turn: TurnMetrics) -> str:
    return "round" if turn.n_rounds == 1 else "rounds"


def _tau(turn: TurnMetrics) -> Line:
    tau, alpha = turn.tokens_per_round, turn.acceptance_rate
    line: Line = [("τ ", "muted"), ("n/a" if tau is None else f"{tau:.2f}", "title")]
    return line if alpha is None else [*line, ("   α ", "muted"), (short(alpha, 3), "title")]


def _positions(turn: TurnMetrics, cells: int, signs: Glyphs) -> list[Line]:
    """Acceptance by position at the left, hits by accepted_len against their fan-out at the right."""
    positions, after = turn.positions(), turn.hits_by_accepted_len()
    if not positions:
        return [[("nothing is drafted: one token a round", "muted")]]
    head = "pos   all  given" + ("    after   hit  fan-out" if after else "")
    rows: list[Line] = [[(head, "muted")]]
    for position, hits in zip_longest(positions, after):
        line: Line = [(" " * 16, "text")]
        if position is not None:
            line = [
                (f"{position.position:2}  ", "muted"),
                (f"{short(position.unconditional):>5}", "accepted"),
            ]
            line.append((f"  {short(position.conditional):>5}", "text"))
        if hits is not None:
            line += [(f"    a={hits.accepted_len:<3}", "muted"), (f"{short(hits.rate):>6}", "hit")]
            line.append((f"   {'–' if hits.fan_out is None else hits.fan_out:<4}", "text"))
            line += _hit_bar(hits, cells - line_width(line), signs)
        rows.append(line)
    return rows


def _hit_bar(hits: HitsAfter, room: int, signs: Glyphs) -> Line:
    """Hits as a bar, then of how many rounds, as far as there is room."""
    counted = f" {hits.hits}/{hits.rounds}"
    cells = min(room - 8, HIT_BAR)
    if cells < 4 or hits.rate is None:
        return [(counted, "muted")] if room >= len(counted) + 1 else []
    filled = bar(hits.rate, cells, signs)
    return [(filled, "hit"), (signs.rest * (cells - cells_of(filled)), "idle"), (counted, "muted")]


def _foot(turn: TurnMetrics) -> list[Line]:
    speed = "n/a" if turn.tokens_per_s is None else f"{turn.tokens_per_s:,.0f}"
    first = "n/a" if turn.ttft_ms is None else f"{turn.ttft_ms:,.0f} ms"
    line: Line = [(speed, "title"), (" tok/s decode", "muted"), ("   TTFT ", "muted"), (first, "text")]
    if turn.branch_hit_rate is None:
        return [line]
    hits: Line = [("hit ", "muted"), (short(turn.branch_hit_rate), "hit")]
    if reasons := turn.miss_reasons():
        hits.append(("    misses: ", "muted"))
        hits.append((", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items())), "miss"))
    return [hits, line]


def _short(view: View, turn: TurnMetrics, width: int, *, alone: bool) -> Line:
    """Rates in one line; `alone`, also those that the lines below would say."""
    line = [*_tau(turn)]
    fields: list[Line] = []
    if positions := turn.positions():
        rates = " ".join(short(position.unconditional) for position in positions)
        fields.append([("  pos ", "muted"), (rates, "accepted")])
    if alone and turn.branch_hit_rate is not None:
        fields.append([("  hit ", "muted"), (short(turn.branch_hit_rate), "hit")])
    if (needed := _break_even(view, turn)) is not None:
        fields.append([("  break-even τ ", "muted"), (f"{needed:.2f}", "text")])
    fields.append([("  " + count(turn.n_rounds), "text"), (f" {_rounds(turn)}", "muted")])
    if alone and turn.tokens_per_s is not None:
        fields.append([(f"  {turn.tokens_per_s:,.0f}", "text"), (" tok/s", "muted")])
    for field in fields:
        if line_width(line) + line_width(field) < width:
            line += field
    return line


def _break_even(view: View, turn: TurnMetrics) -> float | None:
    """The τ from which the last rounds beat AR; None for AR itself and before its step is measured."""
    lane, time = lane_of(view), round_time(turn, view.last_rounds)
    if lane is None or lane.ar_step is None or time is None or turn.lane.decoder == "ar":
        return None
    return break_even_tau(time.round_ns, lane.ar_step.ns)


def _kv_range(turn: TurnMetrics, signs: Glyphs) -> str:
    start = turn.turn.prompt_tokens
    newest = turn.rounds[-1].kv_len[0] if turn.rounds and turn.rounds[-1].kv_len else start
    return f"{start:,} {signs.arrow} {newest:,}"


class AcceptancePanel(Panel):
    """Acceptance and branch hits of the turn on screen."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_acceptance(view, width, height)
