"""Panel 1: the streamed text, and below each line what became of its tokens."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from textual import events

from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.cells import safe_text, wrapped
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import (
    Line,
    Title,
    body_height,
    body_width,
    in_panel,
    is_framed,
    line_width,
    while_it_fits,
)
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.pointing import PointingPanel
from specmon.tui.widgets.text_flow import TextFlow
from specmon.tui.widgets.text_state import TextState

TITLE_CELLS = 15  # of a panel's top border: name, corners and a stretch of rule
PROMPT_ROWS = 3  # a longer prompt is cut
ERROR_ROWS = 4  # as is a longer error
TURNS_SHOWN = 16  # of a conversation, the newest


@dataclass(frozen=True)
class _Row:
    """One text line of the panel: a prompt's (`line`), or row `number` of a flow."""

    line: Line | None
    flow: TextFlow | None = None
    number: int = 0
    selected: int | None = None
    starts_selected: bool = False


def _size(part: list[Line] | TextFlow) -> int:
    """How many rows a part has."""
    return len(part.rows) if isinstance(part, TextFlow) else len(part)


class _Rows:
    """All text lines of the turns up to the view's, each made only when it is asked for."""

    def __init__(self, parts: list[list[Line] | TextFlow], selected: int | None) -> None:
        self.parts = parts
        self.selected = selected  # a round of the last turn, which stands out
        flows = [(at, part) for at, part in enumerate(parts) if isinstance(part, TextFlow)]
        at = flows[-1][0] if flows else 0
        self.flow = flows[-1][1] if flows else None
        self._selected_row = self.flow.row_of(selected) if self.flow and selected is not None else None
        self._ends = list(accumulate(map(_size, parts)))
        self._flow_start = self._ends[at - 1] if at else 0

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> _Row:
        at = bisect_right(self._ends, index)
        part = self.parts[at]
        number = index - (self._ends[at - 1] if at else 0)
        if not isinstance(part, TextFlow):
            return _Row(part[number])
        if part is not self.flow:
            return _Row(None, part, number)
        return _Row(None, part, number, self.selected, number == self._selected_row)

    @property
    def selected_row(self) -> int | None:
        """Where the selected round's text starts."""
        if self.flow is None or self._selected_row is None:
            return None
        return self._flow_start + self._selected_row


def render_text(view: View, width: int, height: int, state: TextState) -> list[Line]:
    """Draw the lane's conversation up to the view's turn; `state` keeps layout and scrolling."""
    signs = glyphs(view.ascii)
    body = text_body(view, body_width(width, height), body_height(width, height), state)
    note = _legend(view, state, signs, width)
    return in_panel(Title(number=1, name="text", note=note), body, width, height, signs)


def text_body(view: View, cells: int, lines: int, state: TextState) -> list[Line]:
    """The visible rows of the conversation, each with its fate line if the view shows fates."""
    signs = glyphs(view.ascii)
    state.held = state.top is not None or view.selected is not None
    rows = _rows(view, max(cells, 1), state, signs, lines)
    state.newest = _newest_top(rows, lines, view.fates)
    state.rows_visible = len(rows) - state.newest
    body: list[Line] = []
    state.drawn = []
    for index in range(_top(view, rows, state), len(rows)):
        if len(body) >= lines:
            break
        row = rows[index]
        shown = _drawn(row, view, last=index == len(rows) - 1, signs=signs)
        body += shown
        state.drawn += [None if row.flow is None else (row.flow, row.number)] * len(shown)
    return body


def _newest_top(rows: _Rows, lines: int, fates: bool) -> int:
    """The first of the newest rows that fill the panel."""
    top = len(rows)
    while top:
        lines -= 2 if fates and rows[top - 1].flow is not None else 1
        if lines < 0:
            break
        top -= 1
    return min(top, max(len(rows) - 1, 0))


def _rows(view: View, cells: int, state: TextState, signs: Glyphs, lines: int) -> _Rows:
    """What is to be laid out; `state.top` is moved along with what comes before it."""
    lane = lane_of(view)
    turns = lane.turns if lane is not None else []
    newest = view.turn % len(turns) if turns else 0
    shown = turns[max(newest + 1 - TURNS_SHOWN, 0) : newest + 1]
    state.forget(shown)
    rows = _laid_out(view, shown, cells, state, signs, lines)
    state.grows = False  # meanwhile, so that rows are added above alone
    while state.top is not None and state.top < 0 and shown and state.reach_back(shown, lines - state.top):
        more = _laid_out(view, shown, cells, state, signs, lines)
        state.top += len(more) - len(rows)
        rows = more
    state.grows = True
    return rows


def _laid_out(
    view: View, shown: list[TurnMetrics], cells: int, state: TextState, signs: Glyphs, lines: int
) -> _Rows:
    """The newest of the turns shown, back to one laid out from its middle, or to where they fill the panel."""
    words = view.ledger if view.ghosts else None
    parts: list[list[Line] | TextFlow] = []
    for turn in reversed(shown):
        flow = state.flow(turn, cells, signs, words, lines, None if parts else view.selected)
        state.lags = (state.lags and bool(parts)) or flow.taken < turn.n_rounds
        blank: list[Line] = [] if turn is shown[0] else [[]]
        parts += [_error(turn, cells, signs), flow]
        parts += [] if flow.first else [[*blank, *_prompt(turn, cells, signs)]]
        number = turn.turn.turn
        kept = state.held and state.oldest is not None
        enough = number == state.oldest if kept else sum(map(_size, parts)) > lines
        if flow.first or enough or turn is shown[0]:
            state.oldest = number
            break
    parts.reverse()
    return _Rows(parts, view.selected)


def _prompt(turn: TurnMetrics, cells: int, signs: Glyphs) -> list[Line]:
    """The user's message, cut after PROMPT_ROWS rows."""
    if turn.turn.prompt is None:
        return [[("prompt removed from this recording", "muted")]]
    first, further = ("> " if signs.ascii else "› "), "  "
    start = turn.turn.prompt[: 2 * cells * PROMPT_ROWS]  # of a long prompt, more than goes into the rows
    rows = wrapped(safe_text(start, signs.ascii), cells - len(first), PROMPT_ROWS, signs.ellipsis)
    return [[(f"{further if number else first}{row}", "accent")] for number, row in enumerate(rows)]


def _error(turn: TurnMetrics, cells: int, signs: Glyphs) -> list[Line]:
    """Why the turn failed, whole; nothing where it did not."""
    if turn.end is None or turn.end.error is None:
        return []
    said = f"error: {safe_text(turn.end.error, signs.ascii)}"
    return [[(row, "error")] for row in wrapped(said, cells, ERROR_ROWS, signs.ellipsis)]


def _top(view: View, rows: _Rows, state: TextState) -> int:
    """First row to draw: the newest rows, unless the user scrolled or selected a round out of sight."""
    if view.selected != state.shown_selected:
        state.shown_selected = view.selected
        state.top = None if view.selected is None else _top_for_selected(rows, state)
    if state.top is not None:
        state.top = max(min(state.top, state.newest), 0)
    return state.newest if state.top is None else state.top


def _top_for_selected(rows: _Rows, state: TextState) -> int | None:
    place = rows.selected_row
    if place is None:
        return state.top
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
    first = next(i for i, run in enumerate(row.flow.rows[row.number]) if run.round == row.selected)
    below, role = line[first]
    line[first : first + 1] = [(signs.selected, "accent@selected"), (below[1:], role)]
    return line


def _decoding(view: View) -> bool:
    turn = turn_of(view)
    return turn is not None and turn.end is None


def _legend(view: View, state: TextState, signs: Glyphs, width: int) -> Line:
    if state.top is not None:
        below = state.newest - state.top
        more = "+" if state.lags else ""
        return [(f"{below}{more} rows below · End follows" if below else "End follows", "warning")]
    if not view.fates:
        return [("t fates", "muted")]
    lane = lane_of(view)
    decoder = "ssd" if lane is None else lane.lane.decoder
    signs_shown: Line = []
    if decoder == "ssd":
        signs_shown += [(f"{signs.hit} hit", "hit"), (f"{signs.miss} miss", "miss")]
    if decoder != "ar":
        signs_shown.append((f"{signs.accepted} accepted", "accepted"))
    signs_shown.append((f"{signs.bonus} bonus", "bonus"))
    if view.ghosts:
        signs_shown.append((f"{signs.rejected} rejected", "rejected"))
    signs_shown += [(f"{signs.selected} selected", "accent"), (f"{signs.first} token one", "muted")]
    first, *others = signs_shown
    return while_it_fits([[first], *([(" ", "text"), other] for other in others)], width - TITLE_CELLS)


class TextPanel(PointingPanel):
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
        self._state.top = None if top >= newest else top
        self.redraw()

    def scroll_page(self, by: int) -> None:
        """Scroll by pages, upwards where negative."""
        self.scroll_rows(by * max(self._state.rows_visible - 1, 1))

    def follow(self) -> None:
        """Follow the newest text."""
        self._state.top = None
        self.redraw()

    def round_at(self, x: int, y: int) -> int | None:
        return self._state.round_at(y - 1, x - (2 if is_framed(*self.size) else 1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-2)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(2)
