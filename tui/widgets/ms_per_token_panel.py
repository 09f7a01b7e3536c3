"""Panel 7: ms/token over KV length, window by window, with the cumulative figure and the floor below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specmon.core.metrics.bandwidth import floor_ms_per_token
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.metrics.windows import Window
from specmon.tui.view import View
from specmon.tui.widgets.bars import column, nice_step
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.panel import Panel

AXIS = 6  # cells of the scale at the left
LABELS = 12  # cells of the figures at the right
WIDEST = 6  # cells of one window, while there are few
TICK_EVERY = 9
FINE_STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclass(frozen=True)
class _Scale:
    """Rows stand for `step` ms/token each, from `low` up; the lowest row is the floor's if `floored`."""

    low: float
    step: float
    rows: int
    floored: bool

    def row_of(self, value: float) -> int:
        """The row, from the bottom, a value falls into."""
        row = int((value - self.low) / self.step) + self.floored
        return min(max(row, 0), self.rows - 1)


def render_ms_per_token(view: View, width: int, height: int) -> list[Line]:
    """Draw the closed windows of the conversation that the view's turn belongs to."""
    signs = glyphs(view.ascii)
    turn = turn_of(view)
    cells, lines = body_width(width, height), body_height(width, height)
    roomy = lines >= 6
    how = "" if view.window_chosen else "auto "
    size = f"window {how}{view.window:,} tok" if roomy else f"{how}{view.window:,} tok"
    note: Line = [(f"{size} · {view.mode}" if roomy else size, "muted")]
    name = "ms/token over KV" if roomy else "ms/token"
    windows = _windows(view)
    if turn is None or not windows:
        body = [[(_waiting(turn, view.window), "muted")]]
    else:
        body = _chart(view, turn, windows, cells, lines, signs)
    return in_panel(Title(number=7, name=name, note=note, keep_case=True), body, width, height, signs)


def _waiting(turn: TurnMetrics | None, size: int) -> str:
    if turn is None:
        return "no turn yet"
    decoded = turn.decoded_tokens
    if turn.end is None:
        return f"first window at {size:,} tokens: {decoded:,} so far"
    if turn.ms_per_token is None:
        return "the turn ended before its first round"
    return f"{_figure(turn.ms_per_token)} all: ended at {decoded:,} of {size:,} tokens"


def _windows(view: View) -> list[Window]:
    """The newest turn's whole conversation; an older turn alone."""
    lane, turn = lane_of(view), turn_of(view)
    if lane is None or turn is None:
        return []
    if turn is lane.turns[-1]:
        return lane.conversation_windows(view.window)
    return turn.windows(view.window)


def _chart(
    view: View, turn: TurnMetrics, windows: Sequence[Window], cells: int, lines: int, signs: Glyphs
) -> list[Line]:
    axis_rows = 2 if lines >= 6 else 0
    plot_cells = max(cells - AXIS - LABELS, 1)
    floor = floor_ms_per_token(turn, view.last_rounds)
    shown, per_window = _fitted(windows, plot_cells, whole=view.mode == "ALL")
    rows = max(lines - axis_rows, 1)
    scale = _scale(shown, turn.ms_per_token, floor, rows)
    columns = [cell for window in shown for cell in [_column(window, scale, signs)] * per_window][:plot_cells]
    labels = _labels(windows[-1], turn.ms_per_token, floor, scale)
    body = []
    for row in range(rows - 1, -1, -1):
        line: Line = [(_axis_label(scale, row) + signs.axis, "muted")]
        line += _plot_row(columns, row, scale, plot_cells, signs)
        body.append([*line, labels.get(row, ("", "text"))])
    return body + _kv_axis(shown, per_window, plot_cells, signs)[:axis_rows]


def _fitted(windows: Sequence[Window], cells: int, *, whole: bool) -> tuple[list[Window], int]:
    """The windows to draw and the cells each takes: the newest that fit, or the worst of each column."""
    if len(windows) <= cells:
        return list(windows), min(max(cells // len(windows), 1), WIDEST)
    if not whole:
        return list(windows[-cells:]), 1
    edges = [i * len(windows) // cells for i in range(cells + 1)]
    parts = [windows[a:b] for a, b in pairwise(edges)]
    return [max(part, key=lambda window: window.ms_per_token) for part in parts], 1


def _scale(shown: Sequence[Window], whole: float | None, floor: float | None, rows: int) -> _Scale:
    top = max(whole or 0.0, *(max(w.ms_per_token, w.cumulative_ms_per_token) for w in shown))
    low, floored = (floor, True) if floor is not None and rows > 1 else (0.0, False)
    bands = rows - floored
    step = nice_step(max(top - low, top * 0.01) * 1.0001, bands, FINE_STEPS)
    return _Scale(low, step, rows, floored)


def _axis_label(scale: _Scale, row: int) -> str:
    """The value at the row's lower edge."""
    value = scale.low + (row - scale.floored) * scale.step
    if value < 0 or (scale.floored and row == 0):
        return " " * (AXIS - 1)
    digits = 2 if scale.step < 1 and value < 100 else 1 if value < 1000 else 0
    return pad(f"{value:,.{digits}f}", AXIS - 1, ">")


def _column(window: Window, scale: _Scale, signs: Glyphs) -> list[tuple[str, str]]:
    """One window's cells, bottom row first; the cumulative line crosses where it hides no bar's end."""
    bands = scale.rows - scale.floored
    cells = column((window.ms_per_token - scale.low) / (scale.step * bands), bands, signs)[::-1]
    drawn = [(cell, "device0") for cell in cells]
    if scale.floored:
        drawn.insert(0, (signs.dashes, "floor"))
    row = scale.row_of(window.cumulative_ms_per_token)
    if drawn[row][0] == signs.full:
        drawn[row] = (signs.mean, "background@device0")
    elif drawn[row][0] == " ":
        drawn[row] = (signs.mean, "text")
    return drawn


def _plot_row(
    columns: Sequence[list[tuple[str, str]]], row: int, scale: _Scale, cells: int, signs: Glyphs
) -> Line:
    rest = signs.dashes if scale.floored and row == 0 else " "
    return [*(drawn[row] for drawn in columns), (rest * (cells - len(columns)), "floor")]


def _labels(
    newest: Window, whole: float | None, floor: float | None, scale: _Scale
) -> dict[int, tuple[str, str]]:
    """The newest window's figure and the whole turn's, each beside its row or the nearest free one."""
    figures = [(newest.ms_per_token, "window", "device0")]
    if whole is not None:
        figures.append((whole, "all", "text"))
    figures.sort(key=lambda figure: figure[0])
    labels: dict[int, tuple[str, str]] = {}
    if floor is not None and scale.floored:
        labels[0] = (f" {_figure(floor)} floor", "floor")
    lowest = len(labels)
    for above, (value, name, role) in zip(reversed(range(len(figures))), figures, strict=True):
        row = max(min(scale.row_of(value), scale.rows - 1 - above), lowest)
        if row < scale.rows:
            labels[row] = (f" {_figure(value)} {name}", role)
        lowest = row + 1
    return labels


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _kv_axis(shown: Sequence[Window], per_window: int, cells: int, signs: Glyphs) -> list[Line]:
    """Ticks and the KV positions where their windows closed."""
    rule, figures = "", ""
    for cell in range(0, cells, TICK_EVERY):
        number = cell // per_window
        if number >= len(shown):
            break
        rule += pad(signs.tick, TICK_EVERY).replace(" ", signs.rule)
        figure = f"{shown[number].kv_len:,}"
        figures += pad(figure if len(figures) + len(figure) <= cells else "", TICK_EVERY)
    rule += signs.rule * max(cells - len(rule), 0)
    line: Line = [(" " * (AXIS - 1) + signs.corner, "muted"), (rule[:cells], "muted")]
    return [line, [(" " * AXIS, "muted"), (pad(figures[:cells], cells), "muted"), (" KV", "muted")]]


class MsPerTokenPanel(Panel):
    """ms/token over KV length."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_ms_per_token(view, width, height)
