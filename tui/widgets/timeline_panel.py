"""Panel 5: what each device did when, a lane for each, with the overlap and the rounds below."""

from __future__ import annotations

from dataclasses import replace

from specmon.core.events import ClockSync
from specmon.core.metrics.round_time import round_time
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import (
    Line,
    Title,
    body_height,
    body_width,
    in_panel,
    line_width,
    while_it_fits,
)
from specmon.tui.widgets.moment import turn_of
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.timeline import Stretch, TimelineState, stretch
from specmon.tui.widgets.timeline_rows import KIND_ROLE, WIDE, band_rows, label_cells

FRAMED_FROM = 6
ROOMY = 150  # columns from which the clocks' bounds are told, and that it follows
TITLE_CELLS = 20  # of the top border: name, corners, and a stretch of rule
BAND_ROWS = 3  # of a band, beside its lanes: time, overlap, rounds
LEGEND = {
    "ar": ("verify", "accept"),
    "sd": ("verify", "draft", "accept", "handoff"),
    "ssd": ("verify", "branch_draft", "draft", "accept", "handoff"),
}
SHORT = {"branch_draft": "branch"}


def render_timeline(view: View, width: int, height: int, state: TimelineState) -> list[Line]:
    """Draw the stretch of time that pan, zoom and selection ask for."""
    signs = glyphs(view.ascii)
    turn = turn_of(view)
    cells, lines = body_width(width, height, FRAMED_FROM), body_height(width, height, FRAMED_FROM)
    if turn is None or not turn.rounds:
        title = Title(number=5, name="timeline", note=[])
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs, FRAMED_FROM)
    names = label_cells(turn, width)
    shown = stretch(turn, view.pointed_at, max(cells - names, 1), state)
    body: list[Line] = []
    bands = _bands(turn, shown, lines)
    for band in bands:
        body += [[]] if body else []
        room = lines if len(bands) == 1 else BAND_ROWS + len(turn.lane.devices)
        body += band_rows(view, turn, band, bands[0].left, names, room, signs)
    title = Title(number=5, name="timeline", note=_note(view, turn, state, width, signs))
    return in_panel(title, body, width, height, signs, FRAMED_FROM)


def _bands(turn: TurnMetrics, shown: Stretch, lines: int) -> list[Stretch]:
    """The stretch, and above it as much of the time before as a high panel holds."""
    count = max((lines + 1) // (len(turn.lane.devices) + BAND_ROWS + 1), 1)
    span = shown.right - shown.left
    first = max(shown.left - (count - 1) * span, min(turn.rounds[0].t0, shown.left))
    bands = [replace(shown, left=first + number * span) for number in range(count)]
    return bands[:1] + [band for band in bands[1:] if band.left < turn.rounds[-1].t1]


def _note(view: View, turn: TurnMetrics, state: TimelineState, width: int, signs: Glyphs) -> Line:
    note: Line = [(_overlap_share(view, turn), "text")]
    bar = (f" {signs.bar} ", "border")
    if width >= ROOMY and (clocks := _clocks(turn, view.ledger.clocks)):
        note += [bar, (clocks, "muted")]
    if state.left is not None or state.cell_ns is not None:
        note += [bar, ("f fits and follows", "warning")]
    elif width >= ROOMY or (view.pointing and width >= WIDE):
        note += [bar, (view.pointing or "follow", "muted")]
    legend = _legend(turn, width - TITLE_CELLS - line_width(note), signs)
    return [*legend, *([(f"{signs.bar} ", "border")] if legend else []), *note]


def _legend(turn: TurnMetrics, room: int, signs: Glyphs) -> Line:
    """What the signs stand for, those of its decoder, as many as go into `room` cells."""
    decoder = turn.lane.decoder
    parts = [_kind(kind, signs) for kind in LEGEND[decoder]]
    if decoder == "ssd" and len(turn.lane.devices) > 1:  # either alone would mislead
        parts.append(
            [*_explained(signs.used, "overlap", "used"), *_explained(signs.wasted, "wasted", "wasted")]
        )
    return while_it_fits([*parts, _kind("wait", signs)], room)


def _kind(kind: str, signs: Glyphs) -> Line:
    return _explained(signs.spans[kind], KIND_ROLE[kind], SHORT.get(kind, kind))


def _explained(sign: str, role: str, name: str) -> Line:
    return [(f"{sign} ", role), (f"{name} ", "muted")]


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
        cells = body_width(width, height, FRAMED_FROM) - label_cells(turn, width)
        return stretch(turn, self.view.pointed_at, max(cells, 1), self._state)

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
