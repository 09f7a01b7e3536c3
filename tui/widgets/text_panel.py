"""Panel 1: the streamed text, and below each line what became of its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual import events

from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.cells import clip, clusters, safe_text
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, in_panel, line_width
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.text_flow import TextFlow

PROMPT_ROWS = 3  # a longer prompt is cut


@dataclass
class TextState:
    """What a text panel keeps between moments: laid-out turns, and the top row (None: follow the newest).

    Rows count text lines of all turns, prompts included; a fate line belongs to the row above it.
    """

    flows: list[tuple[TurnMetrics, TextFlow]] = field(default_factory=list)
    top: int | None = None
    shown_selected: int | None = None
    newest: int = 0  # the top row that shows the newest rows
    rows_visible: int = 0

    def flow(self, position: int, turn: TurnMetrics, width: int, signs: Glyphs) -> TextFlow:
        """The up-to-date flow of the turn at `position`; another turn, width or sign set starts it anew."""
        if position < len(self.flows):
            known, flow = self.flows[position]
            if known is not turn or flow.width != width or flow.glyphs is not signs:
                del self.flows[position:]
        if position >= len(self.flows):
            self.flows.append((turn, TextFlow(width, signs)))
        flow = self.flows[position][1]
        flow.extend(turn)
        return flow


@dataclass(frozen=True)
class _Row:
    """One text line of the panel: a prompt's (`line`), or row `number` of a flow."""

    line: Line | None
    flow: TextFlow | None = None
    number: int = 0
    selected: int | None = None
    starts_selected: bool = False


def render_text(view: View, width: int, height: int, state: TextState) -> list[Line]:
    """Draw the lane's conversation up to the view's turn; `state` keeps layout and scrolling."""
    signs = glyphs(view.ascii)
    body = text_body(view, body_width(width, height), body_height(width, height), state)
    note = _legend(view, state, signs, width)
    return in_panel(Title(number=1, name="text", note=note), body, width, height, signs)


def text_body(view: View, cells: int, lines: int, state: TextState) -> list[Line]:
    """The visible rows of the conversation, each with its fate line if the view shows fates."""
    signs = glyphs(view.ascii)
    rows = _rows(view, max(cells, 1), state, signs)
    state.newest = _newest_top(rows, lines, view.fates)
    state.rows_visible = len(rows) - state.newest
    body: list[Line] = []
    for row in rows[_top(view, rows, state) :]:
        if len(body) >= lines:
            break
        body += _drawn(row, view, last=row is rows[-1], signs=signs)
    return body


def _newest_top(rows: list[_Row], lines: int, fates: bool) -> int:
    """The first of the newest rows that fill the panel."""
    top = len(rows)
    while top:
        lines -= 2 if fates and rows[top - 1].flow is not None else 1
        if lines < 0:
            break
        top -= 1
    return min(top, max(len(rows) - 1, 0))


def _rows(view: View, cells: int, state: TextState, signs: Glyphs) -> list[_Row]:
    lane = lane_of(view)
    turns = lane.turns if lane is not None else []
    newest = view.turn % len(turns) if turns else 0
    rows: list[_Row] = []
    for position, turn in enumerate(turns[: newest + 1]):
        if rows:
            rows.append(_Row([]))
        rows += [_Row(line) for line in _prompt(turn, cells, signs)]
        flow = state.flow(position, turn, cells, signs)
        selected = view.selected if position == newest else None
        start = None if selected is None else flow.row_of(selected)
        rows += [_Row(None, flow, number, selected, number == start) for number in range(len(flow.rows))]
    return rows


def _prompt(turn: TurnMetrics, cells: int, signs: Glyphs) -> list[Line]:
    """The user's message, wrapped by characters and cut after PROMPT_ROWS rows."""
    if turn.turn.prompt is None:
        return [[("prompt removed from this recording", "muted")]]
    mark = "> " if signs.ascii else "› "
    rows, used = [mark], len(mark)
    for text, text_cells in clusters(safe_text(turn.turn.prompt, signs.ascii)):
        if used + text_cells > cells:
            if len(rows) == PROMPT_ROWS:
                rows[-1] = clip(rows[-1] + text * 2, cells, signs.ellipsis)
                break
            rows.append("  ")
            used = 2
        rows[-1] += text
        used += text_cells
    return [[(row, "accent")] for row in rows]


def _top(view: View, rows: list[_Row], state: TextState) -> int:
    """First row to draw: the newest rows, unless the user scrolled or selected a round out of sight."""
    if view.selected != state.shown_selected:
        state.shown_selected = view.selected
        state.top = None if view.selected is None else _top_for_selected(view.selected, rows, state)
    if state.top is not None:
        state.top = max(min(state.top, state.newest), 0)
    return state.newest if state.top is None else state.top


def _top_for_selected(selected: int, rows: list[_Row], state: TextState) -> int | None:
    flow = rows[-1].flow if rows else None
    row = None if flow is None else flow.row_of(selected)
    if flow is None or row is None:
        return state.top
    place = len(rows) - len(flow.rows) + row
    shown_from = state.newest if state.top is None else state.top
    if shown_from <= place < shown_from + state.rows_visible:
        return state.top
    return max(place - state.rows_visible // 2, 0)


def _drawn(row: _Row, view: View, last: bool, signs: Glyphs) -> list[Line]:
    if row.flow is None:
        return [row.line or []]
    line = row.flow.text_line(row.number, row.selected)
    if last and _decoding(view) and line_width(line) < row.flow.width:
        line = [*line, (signs.cursor, "accent")]
    if not view.fates:
        return [line]
    return [line, _marked(row, signs)]


def _marked(row: _Row, signs: Glyphs) -> Line:
    """The fate line; the selected round's first sign becomes the selection mark."""
    assert row.flow is not None
    line = row.flow.fate_line(row.number, row.selected)
    if not row.starts_selected:
        return line
    first = next(i for i, cell in enumerate(row.flow.rows[row.number]) if cell.round == row.selected)
    line[first] = (signs.selected + line[first][0][1:], "accent@selected")
    return line


def _decoding(view: View) -> bool:
    turn = turn_of(view)
    return turn is not None and turn.end is None


def _legend(view: View, state: TextState, signs: Glyphs, width: int) -> Line:
    if state.top is not None:
        below = state.newest - state.top
        return [(f"{below} rows below · End follows" if below else "End follows", "warning")]
    if not view.fates:
        return [("t fates", "muted")]
    legend: Line = []
    lane = lane_of(view)
    if lane is None or lane.lane.decoder == "ssd":
        legend += [(f"{signs.hit} hit ", "hit"), (f"{signs.miss} miss ", "miss")]
    if lane is None or lane.lane.decoder != "ar":
        legend.append((f"{signs.accepted} accepted ", "accepted"))
    legend.append((f"{signs.bonus} bonus", "bonus"))
    return [*legend, (f" {signs.selected} selected", "accent")] if width >= 72 else legend


class TextPanel(Panel):
    """Follows the newest text until it is scrolled up; scrolling to the end, or `follow`, follows again."""

    def __init__(
        self, *, palette: Palette | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(palette=palette, id=id, classes=classes)
        self._state = TextState()

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_text(view, width, height, self._state)

    @property
    def following(self) -> bool:
        """Whether new text scrolls into view."""
        return self._state.top is None

    def scroll_rows(self, by: int) -> None:
        """Scroll by text rows, upwards where negative."""
        newest = self._state.newest
        top = (newest if self._state.top is None else self._state.top) + by
        self._state.top = None if top >= newest else max(top, 0)
        self.redraw()

    def scroll_page(self, by: int) -> None:
        """Scroll by pages, upwards where negative."""
        self.scroll_rows(by * max(self._state.rows_visible - 1, 1))

    def follow(self) -> None:
        """Follow the newest text."""
        self._state.top = None
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-2)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(2)
