"""Panel 3: one round in full: its draft, its outcome, the branches prepared for it, and its spans."""

from __future__ import annotations

from specmon.core.events import Branch, Round
from specmon.core.metrics.acceptance import drafted_len, node_depths
from specmon.core.metrics.spans import overlap, verify_ns
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.drafts import (
    MISS_TEXT,
    VERDICT_ROLE,
    origin_segment,
    outcome_segment,
    quoted,
    verdict,
    verdict_sign,
)
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import (
    Line,
    Title,
    body_height,
    body_width,
    fit,
    in_panel,
    is_framed,
    line_width,
)
from specmon.tui.widgets.moment import focus_of, turn_of
from specmon.tui.widgets.numbers import count, ms, short
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.round_spans import LABEL, span_lines, span_table

FRAMED_FROM = 8
REFRESH_NS = 250_000_000  # figures change at most four times a second
PACE_ROUNDS = 16
TABLE_FROM, TABLE_CELLS = 20, 76  # lines and cells from which the spans are a table


def render_round(view: View, width: int, height: int) -> list[Line]:
    """Draw the round of the view's turn that is pointed at, or the newest."""
    signs = glyphs(view.ascii)
    turn, position = turn_of(view), focus_of(view)
    if turn is None or position is None:
        title = Title(number=3, name="round", note=[])
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs)
    round_ = turn.rounds[position]
    title = Title(number=3, name=f"round {round_.index}", note=_note(view, turn, round_, signs))
    cells, lines = body_width(width, height), body_height(width, height)
    if is_framed(width, height) or lines > 3:
        body = _full(view, turn, position, signs, cells, lines)
    else:
        body = _short(view, turn, round_, signs, cells)
    return in_panel(title, body, width, height, signs)


def _note(view: View, turn: TurnMetrics, round_: Round, signs: Glyphs) -> Line:
    note: Line = _place(view, turn)
    if round_.draft:
        nodes = "" if round_.parents is None else f" of {len(round_.draft)} nodes"
        note.append((f"a {round_.accepted_len}/{drafted_len(round_)}{nodes}", "title"))
    if (outcome := outcome_segment(round_, signs)) is not None:
        note += [("  next ", "muted"), outcome]  # panel 2's `from` tells of the round's own draft
    return [*note, (f"  {ms(round_.t1 - round_.t0)} ms", "title")]


def _place(view: View, turn: TurnMetrics) -> Line:
    """Pinned, the newest of all, or one of the many that went by since the figures were last refreshed."""
    if view.pointing:
        return [(f"{view.pointing}  ", "accent")]
    passed = rounds_a_refresh(turn) if view.mode == "LIVE" and view.replay is None else 1
    if turn.end is None and passed > 1:
        return [(f"1 of {count(passed)} · p pins  ", "muted")]
    return [(f"newest of {count(turn.n_rounds)}  ", "muted")]


def rounds_a_refresh(turn: TurnMetrics) -> int:
    """How many rounds pass between two refreshes of the figures, by the pace of the newest."""
    newest = turn.rounds[-PACE_ROUNDS:]
    return round(REFRESH_NS * len(newest) / max(sum(r.t1 - r.t0 for r in newest), 1))


def _short(view: View, turn: TurnMetrics, round_: Round, signs: Glyphs, cells: int) -> list[Line]:
    """Two or three lines: the draft with its verdicts, then the branches and the times."""
    line: Line = []
    for node, token in enumerate(round_.draft):
        judged = verdict(round_, node)
        line.append(
            (verdict_sign(judged, signs) + quoted(view.ledger, token, signs, 10), VERDICT_ROLE[judged])
        )
        line.append((f" {_probability(round_, node)}  ", "muted"))
    line += [("bonus ", "muted"), (_bonus(view, round_, signs), "bonus")]
    times: Line = [("verify ", "muted"), (ms(verify_ns(round_)), "verify")]
    if (both := overlap([round_], len(turn.lane.devices))) is not None:
        times += [("  overlap ", "muted"), (ms(both.total_ns), "wasted" if both.wasted_ns else "overlap")]
    if not round_.branches:
        return [line, times]
    used: Line = [
        (f"branches {len(round_.branches)} {signs.arrow} ", "muted"),
        *_outcome(view, round_, signs),
    ]
    room = cells - line_width(times) - 2
    return [line, [*fit(used, room, ellipsis=signs.ellipsis), ("  ", "text"), *times]]


def _full(view: View, turn: TurnMetrics, position: int, signs: Glyphs, cells: int, lines: int) -> list[Line]:
    round_ = turn.rounds[position]
    draft = _draft(view, turn, position, signs, cells)
    roomy = lines >= TABLE_FROM and cells >= TABLE_CELLS
    spans = span_table(turn, round_) if roomy else span_lines(turn, round_, signs, cells)
    head = [*draft, _outcome_line(view, turn, position, signs, cells)]
    room = lines - len(head) - 1
    branches = _branches(view, round_, signs, max(room - min(len(spans), max(room // 3, 1)), 1))
    return [*head, *branches, *spans[: max(lines - len(head) - len(branches), 0)]]


def _label(text: str) -> Line:
    return [(f"{text:<{LABEL}}", "muted")]


def _draft(view: View, turn: TurnMetrics, position: int, signs: Glyphs, cells: int) -> list[Line]:
    """Each drafted token with its probability and verdict, on as many lines as it takes, at most three."""
    round_ = turn.rounds[position]
    if not round_.draft:
        return [[*_label("draft"), ("none: the target decoded one token", "muted")]]
    if round_.parents is not None:
        return _tree(view, round_, signs, cells)
    rows: list[Line] = [_label("draft")]
    for node, token in enumerate(round_.draft):
        judged = verdict(round_, node)
        text = f"{verdict_sign(judged, signs)}{quoted(view.ledger, token, signs, 12)}"
        field: Line = [(f"{node + 1} ", "muted"), (text, VERDICT_ROLE[judged])]
        field.append((f" p{_probability(round_, node)}  " if _probability(round_, node) else "  ", "muted"))
        if line_width(rows[-1]) + line_width(field) > cells and len(rows) < 3:
            rows.append(_label(""))
        rows[-1] += field
    source: Line = [("from ", "muted"), origin_segment(turn.origin(position), signs)]
    if line_width(rows[-1]) + line_width(source) <= cells:
        rows[-1] += source
    return rows


def _tree(view: View, round_: Round, signs: Glyphs, cells: int) -> list[Line]:
    """A drafted tree, one depth after the other: each node with its verdict, and the node it continues."""
    depths = node_depths(round_.parents or ())
    rows: list[Line] = []
    for depth in range(1, max(depths, default=0) + 1):
        rows.append(_label(f"depth {depth}"))
        for node in (node for node, its_depth in enumerate(depths) if its_depth == depth):
            parent = (round_.parents or ())[node]
            judged = verdict(round_, node)
            text = f"{verdict_sign(judged, signs)}{quoted(view.ledger, round_.draft[node], signs, 12)}"
            follows = f" after {parent + 1}" if parent >= 0 else ""
            field: Line = [(f"{node + 1} ", "muted"), (text, VERDICT_ROLE[judged]), (f"{follows}  ", "muted")]
            if line_width(rows[-1]) + line_width(field) > cells:
                rows.append(_label(""))
            rows[-1] += field
    return rows


def _probability(round_: Round, node: int) -> str:
    probability = round_.draft_probs[node] if node < len(round_.draft_probs) else None
    return "" if probability is None else short(probability)


def _bonus(view: View, round_: Round, signs: Glyphs) -> str:
    redacted = round_.emitted[-1:] == (None,)
    if round_.bonus is None and not redacted:
        return "none, generation stopped in the draft"
    return quoted(view.ledger, round_.bonus, signs)


def _outcome_line(view: View, turn: TurnMetrics, position: int, signs: Glyphs, cells: int) -> Line:
    """Bonus, KV and margin, as far as they fit."""
    round_ = turn.rounds[position]
    line = [*_label("bonus"), (_bonus(view, round_, signs), "bonus")]
    fields: list[Line] = []
    if (hit := _hit(round_)) is not None:
        fields.append([(f", the draft's rank {hit.rank} at position {hit.accepted_len + 1}", "muted")])
    if round_.kv_len:
        before = turn.rounds[position - 1].kv_len if position else (turn.turn.prompt_tokens,)
        start = f"{before[0]:,} {signs.arrow} " if before else ""
        back = len(round_.draft) - round_.accepted_len if round_.parents is None else 0
        fields.append([("  KV ", "muted"), (f"{start}{round_.kv_len[0]:,}", "text")])
        fields[-1].append((f", cursor back {back}" if back else "", "muted"))
    if round_.margin is not None:
        fields.append([(f"  margin {round_.margin:.2f}", "muted")])
    for field in fields:
        if line_width(line) + line_width(field) <= cells:
            line += field
    return line


def _hit(round_: Round) -> Branch | None:
    if round_.hit is None or not 0 <= round_.hit < len(round_.branches):
        return None
    return round_.branches[round_.hit]


def _outcome(view: View, round_: Round, signs: Glyphs) -> Line:
    hit = _hit(round_)
    if hit is not None:
        return _branch(view, hit, signs, hit=True)
    if round_.miss is None:
        return [("no round follows, so none was used", "muted")]
    return [
        (f"{signs.miss} a={round_.accepted_len} {_bonus(view, round_, signs)}: ", "miss"),
        (MISS_TEXT[round_.miss], "muted"),
    ]


def _branch(view: View, branch: Branch, signs: Glyphs, *, hit: bool) -> Line:
    tokens = " ".join(quoted(view.ledger, token, signs, 10) for token in branch.tokens)
    sign = signs.hit if hit else " "
    line: Line = [(f"{sign} a={branch.accepted_len} ", "hit" if hit else "muted")]
    line.append((quoted(view.ledger, branch.bonus, signs, 10), "bonus" if hit else "text"))
    if tokens:
        line.append((f" {signs.arrow} {tokens}", "text" if hit else "muted"))
    return line


def _branches(view: View, round_: Round, signs: Glyphs, lines: int) -> list[Line]:
    """What was prepared per accepted_len, the branch that came true or why none did, then the others."""
    if not round_.branches:
        if round_.miss is None:
            return []
        return [[*_label("branch"), (f"{signs.miss} {MISS_TEXT[round_.miss]}", "miss")]]
    per_len: dict[int, int] = {}
    for branch in round_.branches:
        per_len[branch.accepted_len] = per_len.get(branch.accepted_len, 0) + 1
    prepared = "   ".join(f"a={a} {n}" for a, n in sorted(per_len.items()))
    rows: list[Line] = [
        [*_label("branch"), (f"{len(round_.branches)} prepared:  ", "text"), (prepared, "muted")]
    ]
    hit = _hit(round_)
    rows.append([("  ", "text"), *_outcome(view, round_, signs)])
    if hit is not None:
        rows[-1].append((f"   HIT: the draft of round {round_.index + 1}", "hit"))
    others = sorted(
        (branch for branch in round_.branches if branch is not hit),
        key=lambda branch: (branch.accepted_len != round_.accepted_len, branch.accepted_len, branch.rank),
    )
    for branch in others[: max(lines - len(rows), 0)]:
        late = "   not finished in time" if branch.ready_at is None else ""
        rows.append([("  ", "text"), *_branch(view, branch, signs, hit=False), (late, "miss")])
    return rows


class RoundPanel(Panel):
    """The round in focus."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_round(view, width, height)
