"""The rows of a timeline: a device's lane, the overlap, the rounds, and the time above them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specmon.core.events import Round, Span
from specmon.core.metrics.spans import overlap_intervals
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.bars import nice_step
from specmon.tui.widgets.cells import pad, safe_text
from specmon.tui.widgets.drafts import origin_segment
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line, runs
from specmon.tui.widgets.numbers import ms
from specmon.tui.widgets.timeline import Stretch, covered_cells, lane_kinds, rounds_in

WIDE = 120  # columns from which a lane says what its device is for
TICK_CELLS = 12  # about this many cells from tick to tick
KIND_ROLE = {
    "prefill": "verify",
    "verify": "verify",
    "branch_draft": "branch_draft",
    "draft": "draft",
    "accept": "accept",
    "handoff": "handoff",
    "collective": "handoff",
    "wait": "idle",
}


def label_cells(turn: TurnMetrics, width: int) -> int:
    """Cells of the names at the left of a panel `width` columns wide."""
    names = [len(name) for name in turn.lane.devices]
    return min(max([*names, 7]) + (7 if width >= WIDE else 1), max(width // 3, 1))


def band_rows(
    view: View, turn: TurnMetrics, shown: Stretch, origin: float, names: int, lines: int, signs: Glyphs
) -> list[Line]:
    """One stretch of time in at most `lines` rows: lanes first, then what fits of overlap, rounds and axis.

    `origin` (ns) is where the axis counts from, `names` the cells of the row names.
    """
    positions = rounds_in(turn.rounds, shown)
    rounds = [turn.rounds[position] for position in positions]
    spans = [span for round_ in rounds for span in round_.spans]
    if turn.prefill is not None and positions.start == 0:
        spans += turn.prefill.spans
    devices = range(len(turn.lane.devices))
    lanes = [
        [label(lane_name(turn, device, names), names), *lane_row(spans, device, shown, signs)]
        for device in devices
    ]
    spare = lines - len(lanes)
    combined = spare < (3 if len(devices) > 1 else 2)
    below = [[label("round", names), *rounds_row(view, turn, positions, shown, signs, times=combined)]]
    if len(devices) > 1 and spare >= 2:
        below.insert(0, [label("overlap", names), *overlap_row(rounds, shown, signs)])
    above = [] if combined else [axis_row(shown, origin, names)]
    return [*above, *lanes, *below]


def label(text: str, cells: int) -> tuple[str, str]:
    return pad(text, cells), "muted"


def lane_name(turn: TurnMetrics, device: int, label_cells: int) -> str:
    """The device, and where there is room what it is for."""
    name = safe_text(turn.lane.devices[device])
    shared = len(turn.lane.devices) == 1 and turn.lane.decoder != "ar"
    role = "both" if shared else "target" if device < turn.lane.n_target_devices else "draft"
    return f"{name} {role}" if len(name) + len(role) + 1 < label_cells else name


def lane_row(spans: Sequence[Span], device: int, shown: Stretch, signs: Glyphs) -> Line:
    kinds = lane_kinds(spans, device, shown)
    return runs((" ", "text") if kind is None else (signs.spans[kind], KIND_ROLE[kind]) for kind in kinds)


def overlap_row(rounds: Sequence[Round], shown: Stretch, signs: Glyphs) -> Line:
    used, both = overlap_intervals(rounds)
    used_cells, all_cells = covered_cells(used, shown), covered_cells(both, shown)
    return runs(
        (signs.used, "overlap")
        if cell in used_cells
        else (signs.wasted, "wasted")
        if cell in all_cells
        else (" ", "text")
        for cell in range(shown.cells)
    )


def rounds_row(
    view: View, turn: TurnMetrics, positions: range, shown: Stretch, signs: Glyphs, *, times: bool
) -> Line:
    """Each round's number where it starts, as far as they do not touch; `times` adds how long it took."""
    line: Line = []
    used = 0
    for position in positions:
        round_ = turn.rounds[position]
        cell, end = max(shown.cell(round_.t0), 0), min(shown.cell(round_.t1), shown.cells)
        if cell < used or cell >= shown.cells:
            continue
        label = _round_label(view, turn, position, signs, times=times)
        room = min(max(end - cell - 1, 0), shown.cells - cell)
        while label and sum(len(text) for text, _ in label) > room:
            label.pop()
        if not label:
            continue
        line += [(" " * (cell - used), "text"), *label]
        used = cell + sum(len(text) for text, _ in label)
    return line


def _round_label(view: View, turn: TurnMetrics, position: int, signs: Glyphs, *, times: bool) -> Line:
    round_ = turn.rounds[position]
    selected = position == view.pointed_at
    label: Line = [(str(round_.index), "accent" if selected else "text")]
    if selected:
        label.append((f" {signs.selected}", "accent"))
    if times:
        return [*label, (f" {ms(round_.t1 - round_.t0)} ms", "muted")]
    text, role = origin_segment(turn.origin(position), signs)
    return [*label, (f" {text}", role)] if role in ("hit", "miss") else label


def axis_row(shown: Stretch, origin: float, names: int) -> Line:
    """Time since `origin` (ns), in µs where cells are short."""
    step = nice_step(shown.cell_ns * shown.cells, max(shown.cells // TICK_CELLS, 1))
    unit, per_unit = ("ms", 1e6) if step >= 1e5 else ("µs", 1e3)
    text = ""
    tick = math.ceil((shown.left - origin) / step)
    while (cell := round((origin + tick * step - shown.left) / shown.cell_ns)) < shown.cells:
        figure = f"{tick * step / per_unit:,.6g}"
        if cell + len(figure) <= shown.cells:
            text = pad(text, cell) + figure
        tick += 1
    return [label(unit, names), (text, "muted")]
