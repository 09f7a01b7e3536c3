"""What a timeline shows, without drawing it: the stretch of time, and what each of its cells stands for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specmon.core.events import Round, Span
from specmon.core.metrics.spans import Interval
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.widgets.bars import nice_step

FIT_ROUNDS, FIT_ROUNDS_NARROW = 5, 3
NARROW = 100  # cells below which fewer rounds fit
MOST_ROUNDS = 400  # a wider stretch says nothing more and would be slow to draw
LEAST_CELL_NS = 100.0
CELL_STEPS = (
    1.0,
    1.1,
    1.25,
    1.4,
    1.6,
    1.8,
    2.0,
    2.25,
    2.5,
    2.8,
    3.2,
    3.6,
    4.0,
    4.5,
    5.0,
    5.6,
    6.4,
    7.2,
    8.0,
    9.0,
)
#: Short work keeps a cell next to long work, and waiting yields to all work.
WEIGHT = {"accept": 12.0, "handoff": 12.0, "collective": 12.0, "wait": 0.1}


@dataclass(frozen=True)
class Stretch:
    """Time from `left` (ns), `cells` cells of `cell_ns` each."""

    left: float
    cell_ns: float
    cells: int

    @property
    def right(self) -> float:
        """Where it ends (ns)."""
        return self.left + self.cell_ns * self.cells

    def cell(self, t: float) -> int:
        """The cell an instant falls into; outside 0..cells-1 if it is out of sight."""
        return int((t - self.left) // self.cell_ns)


@dataclass
class TimelineState:
    """Pan and zoom: `left` and `cell_ns` in ns, None where the timeline follows and fits by itself."""

    left: float | None = None
    cell_ns: float | None = None


def stretch(turn: TurnMetrics, selected: int | None, cells: int, state: TimelineState) -> Stretch:
    """The time to show: as panned and zoomed, else around the selected round, else the newest rounds."""
    rounds = turn.rounds
    newest = len(rounds) - 1
    fitted = FIT_ROUNDS if cells >= NARROW else FIT_ROUNDS_NARROW
    first = max(newest - fitted + 1, 0)
    if selected is not None and state.left is None:
        first = min(max(selected - fitted // 2, 0), first)
    last = min(first + fitted - 1, newest)
    span = rounds[last].t1 - rounds[first].t0
    cell_ns = state.cell_ns or nice_step(span, cells, CELL_STEPS)
    most = turn.decode_ns / len(rounds) * MOST_ROUNDS / cells
    cell_ns = min(max(cell_ns, LEAST_CELL_NS), max(most, LEAST_CELL_NS))
    if state.left is not None:
        return Stretch(state.left, cell_ns, cells)
    if state.cell_ns is None:
        return Stretch(rounds[first].t0, cell_ns, cells)
    if selected is not None:
        focus = rounds[min(selected, newest)]
        return Stretch((focus.t0 + focus.t1 - cell_ns * cells) / 2, cell_ns, cells)
    return Stretch(max(rounds[newest].t1 - cell_ns * cells, rounds[0].t0), cell_ns, cells)


def rounds_in(rounds: Sequence[Round], shown: Stretch) -> range:
    """Positions of the rounds that touch the stretch, and one more each side for spans that cross over."""
    first = bisect_left(rounds, shown.left, key=lambda round_: round_.t1)
    last = bisect_left(rounds, shown.right, key=lambda round_: round_.t0)
    return range(max(first - 1, 0), min(last + 1, len(rounds)))


def lane_kinds(spans: Iterable[Span], device: int, shown: Stretch) -> list[str | None]:
    """The kind that fills most of each cell on a device; None where nothing is known."""
    best: list[tuple[float, str | None]] = [(0.0, None)] * shown.cells
    for span in spans:
        if span.device != device or span.end <= shown.left or span.start >= shown.right:
            continue
        start, end = (span.start - shown.left) / shown.cell_ns, (span.end - shown.left) / shown.cell_ns
        for cell in range(max(int(start), 0), min(int(end) + 1, shown.cells)):
            covered = (min(end, cell + 1) - max(start, cell)) * WEIGHT.get(span.kind, 1.0)
            if covered > best[cell][0]:
                best[cell] = (covered, span.kind)
    return [kind for _, kind in best]


def covered_cells(intervals: Iterable[Interval], shown: Stretch) -> set[int]:
    """Cells at least half covered by one of the intervals."""
    cells: set[int] = set()
    for start, end in intervals:
        first = round((start - shown.left) / shown.cell_ns)
        last = round((end - shown.left) / shown.cell_ns)
        cells.update(range(max(first, 0), min(last, shown.cells)))
    return cells
