"""Panel 5: what each device did when, a lane for each, with the overlap and the rounds below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specmon.core.events import ClockSync, Round, Span
from specmon.core.metrics.round_time import round_time
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.bars import nice_step
from specmon.tui.widgets.cells import pad, safe_text
from specmon.tui.widgets.drafts import origin_segment
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel
from specmon.tui.widgets.moment import turn_of
from specmon.tui.widgets.numbers import ms
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.timeline import (
    Stretch,
    TimelineState,
    covered_cells,
    lane_kinds,
    overlap_intervals,
    rounds_in,
    stretch,
)

FRAMED_FROM = 6
WIDE = 120
LEGEND_FROM = 150
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
LEGEND = ("verify", "branch_draft", "draft", "accept", "handoff")


def render_timeline(view: View, width: int, height: int, state: TimelineState) -> list[Line]:
    """Draw the stretch of time that pan, zoom and selection ask for."""
    signs = glyphs(view.ascii)
    turn = turn_of(view)
    cells, lines = body_width(width, height, FRAMED_FROM), body_height(width, height, FRAMED_FROM)
    if turn is None or not turn.rounds:
        title = Title(number=5, name="timeline", note=[])
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs, FRAMED_FROM)
    label_cells = _label_cells(turn, width)
    shown = stretch(turn, view.selected, max(cells - label_cells, 1), state)
    body = _body(view, turn, shown, label_cells, lines, signs)
    title = Title(number=5, name="timeline", note=_note(view, turn, state, width, signs))
    return in_panel(title, body, width, height, signs, FRAMED_FROM)


def _label_cells(turn: TurnMetrics, width: int) -> int:
    names = [len(name) for name in turn.lane.devices]
    return min(max([*names, 6]) + (8 if width >= WIDE else 1), max(width // 3, 1))


def _body(
    view: View, turn: TurnMetrics, shown: Stretch, label_cells: int, lines: int, signs: Glyphs
) -> list[Line]:
    """Lanes first; then, as far as there is room, overlap, rounds and the time axis."""
    positions = rounds_in(turn.rounds, shown)
    rounds = [turn.rounds[position] for position in positions]
    spans = [span for round_ in rounds for span in round_.spans]
    if turn.prefill is not None and positions.start == 0:
        spans += turn.prefill.spans
    devices = range(len(turn.lane.devices))
    lanes = [
        [_label(_lane_name(turn, device, label_cells), label_cells), *_lane(spans, device, shown, signs)]
        for device in devices
    ]
    spare = lines - len(lanes)
    combined = spare < (3 if len(devices) > 1 else 2)
    below = [[_label("round", label_cells), *_rounds(view, turn, positions, shown, signs, times=combined)]]
    if len(devices) > 1 and spare >= 2:
        below.insert(0, [_label("overlap", label_cells), *_overlap(rounds, shown, signs)])
    above = [] if combined else [_axis(shown, label_cells)]
    return [*above, *lanes, *below]


def _label(text: str, cells: int) -> tuple[str, str]:
    return pad(text, cells), "muted"


def _lane_name(turn: TurnMetrics, device: int, label_cells: int) -> str:
    """The device, and where there is room what it is for."""
    name = safe_text(turn.lane.devices[device])
    shared = len(turn.lane.devices) == 1 and turn.lane.decoder != "ar"
    role = "both" if shared else "target" if device == 0 else "draft"
    return f"{name} {role}" if len(name) + len(role) + 1 < label_cells else name


def _runs(cells: Iterable[tuple[str, str]]) -> Line:
    """Join neighbouring cells of one role."""
    line: Line = []
    for text, role in cells:
        if line and line[-1][1] == role:
            line[-1] = (line[-1][0] + text, role)
        else:
            line.append((text, role))
    return line


def _lane(spans: Sequence[Span], device: int, shown: Stretch, signs: Glyphs) -> Line:
    kinds = lane_kinds(spans, device, shown)
    return _runs((" ", "text") if kind is None else (signs.spans[kind], KIND_ROLE[kind]) for kind in kinds)


def _overlap(rounds: Sequence[Round], shown: Stretch, signs: Glyphs) -> Line:
    used, both = overlap_intervals(rounds)
    used_cells, all_cells = covered_cells(used, shown), covered_cells(both, shown)
    return _runs(
        (signs.used, "overlap")
        if cell in used_cells
        else (signs.wasted, "wasted")
        if cell in all_cells
        else (" ", "text")
        for cell in range(shown.cells)
    )


def _rounds(
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
    selected = position == view.selected
    label: Line = [(str(round_.index), "accent" if selected else "text")]
    if selected:
        label.append((f" {signs.selected}", "accent"))
    if times:
        return [*label, (f" {ms(round_.t1 - round_.t0)} ms", "muted")]
    text, role = origin_segment(turn.origin(position), signs)
    return [*label, (f" {text}", role)] if role in ("hit", "miss") else label


def _axis(shown: Stretch, label_cells: int) -> Line:
    """Time from the left edge, in µs where cells are short."""
    step = nice_step(shown.cell_ns * shown.cells, max(shown.cells // TICK_CELLS, 1))
    unit, per_unit = ("ms", 1e6) if step >= 1e5 else ("µs", 1e3)
    text = ""
    tick = 0
    while (cell := round(tick * step / shown.cell_ns)) < shown.cells:
        figure = f"{tick * step / per_unit:,g}"
        if cell + len(figure) <= shown.cells:
            text = pad(text, cell) + figure
        tick += 1
    return [_label(unit, label_cells), (text, "muted")]


def _note(view: View, turn: TurnMetrics, state: TimelineState, width: int, signs: Glyphs) -> Line:
    note: Line = []
    if width >= LEGEND_FROM:
        for kind in LEGEND:
            note += [(f"{signs.spans[kind]} ", KIND_ROLE[kind]), (f"{kind.replace('_', ' ')} ", "muted")]
        if len(turn.lane.devices) > 1:
            note += [
                (signs.used, "overlap"),
                (" used ", "muted"),
                (signs.wasted, "wasted"),
                (" wasted", "muted"),
            ]
        note.append((f" {signs.bar} ", "border"))
    note.append((_overlap_share(view, turn), "text"))
    if width < WIDE:
        return note
    if clocks := _clocks(turn, view.ledger.clocks):
        note += [(f" {signs.bar} ", "border"), (clocks, "muted")]
    moved = state.left is not None or state.cell_ns is not None
    where = "f fits and follows" if moved else "follow" if view.selected is None else "pinned"
    return [*note, (f" {signs.bar} ", "border"), (where, "warning" if moved else "muted")]


def _overlap_share(view: View, turn: TurnMetrics) -> str:
    time = round_time(turn, view.last_rounds)
    if time is None or time.overlap is None or not time.shares.total_ns:
        return "overlap n/a: one device"
    total, used = (100 * ns / time.shares.total_ns for ns in (time.overlap.total_ns, time.overlap.used_ns))
    return f"overlap {total:.0f} % of round, {used:.0f} used"


def _clocks(turn: TurnMetrics, clocks: dict[str, ClockSync]) -> str:
    """How far the devices' clocks may be off."""
    bounds = [clocks[name].bound_ns for name in turn.lane.devices if name in clocks]
    return f"clocks ±{max(bounds) / 1e3:.1f} µs" if bounds else ""


class TimelinePanel(Panel):
    """Follows the newest rounds until panned; `zoom` keeps following."""

    NUMBER = 5

    def __init__(
        self, *, palette: Palette | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(palette=palette, id=id, classes=classes)
        self._state = TimelineState()

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_timeline(view, width, height, self._state)

    def _shown(self) -> Stretch | None:
        turn = None if self.view is None else turn_of(self.view)
        if self.view is None or turn is None or not turn.rounds or not self.size.width:
            return None
        width, height = self.size
        cells = body_width(width, height, FRAMED_FROM) - _label_cells(turn, width)
        return stretch(turn, self.view.selected, max(cells, 1), self._state)

    def pan(self, by: int) -> None:
        """Move by quarters of the width: later where positive."""
        if (shown := self._shown()) is not None:
            self._state = TimelineState(shown.left + by * shown.cell_ns * shown.cells / 4, shown.cell_ns)
            self.redraw()

    def zoom(self, by: int) -> None:
        """Show less time where positive, more where negative; a panned timeline keeps its middle."""
        if (shown := self._shown()) is None:
            return
        cell_ns = max(shown.cell_ns * 1.5**-by, 1.0)
        left = self._state.left
        if left is not None:
            left = shown.left + (shown.cell_ns - cell_ns) * shown.cells / 2
        self._state = TimelineState(left, cell_ns)
        self.redraw()

    def fit(self) -> None:
        """Fit the newest rounds and follow them."""
        self._state = TimelineState()
        self.redraw()
