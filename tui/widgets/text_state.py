"""What a text panel has laid out, and where the user looks: of long turns and conversations only what may be seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.text_flow import LONG_ROUNDS, TextFlow, line_start

HELD_ROUNDS = 500  #: laid out at a time below what the user looks at


@dataclass
class TextState:
    """What a text panel keeps between moments: laid-out turns, and the top row (None: follow the newest).

    Rows count text lines of all that is laid out, prompts included; a fate line belongs to the row above it. Only what
    may be seen is laid out, of a long turn from the middle on. While the user looks at one place (`held`) nothing
    laid out is dropped; a negative `top` asks for rows before it.
    """

    flows: dict[int, tuple[TurnMetrics, TextFlow]] = field(default_factory=dict)  # by the turn's number
    held: bool = False
    grows: bool = True  # whether held text is laid out further, by HELD_ROUNDS
    lags: bool = False  # whether some of the newest text is not laid out
    oldest: int | None = None  # number of the oldest turn laid out
    top: int | None = None
    shown_selected: int | None = None
    newest: int = 0  # the top row that shows the newest rows
    rows_visible: int = 0
    drawn: list[tuple[TextFlow, int] | None] = field(default_factory=list)  # what each body line shows

    def flow(
        self,
        turn: TurnMetrics,
        width: int,
        signs: Glyphs,
        words: Ledger | None,
        rows: int,
        selected: int | None,
    ) -> TextFlow:
        """The flow of a turn with its newest `rows` rows, or the selected round.

        One drawn differently is started anew, and one that is not held when the newest rows begin far behind its start.
        """
        number = turn.turn.turn
        known, flow = self.flows.get(number, (None, None))
        if known is not turn or (flow and (flow.width, flow.glyphs, flow.ledger) != (width, signs, words)):
            flow = None
        most = None if not self.held else HELD_ROUNDS if self.grows else 0
        if flow is None or not (self.held or _serves(flow, turn, rows)):
            follows_held_text = self.held and number > max(self.flows, default=number)
            from_middle = turn.n_rounds > LONG_ROUNDS and not follows_held_text
            first = line_start(turn, width, rows) if from_middle else 0
            most = HELD_ROUNDS if follows_held_text else None
            if flow is None or first != flow.first:
                flow = self._begin(turn, TextFlow(width, signs, words, first))
        reached = range(flow.first, max(flow.taken, flow.first) + HELD_ROUNDS)
        if selected is not None and selected < turn.n_rounds and selected not in reached:
            first = line_start(turn, width, rows, selected, turn.n_rounds)
            flow, most = (
                self._begin(turn, TextFlow(width, signs, words, first)),
                selected - first + HELD_ROUNDS,
            )
            self.top = None  # rows are counted from another one
        flow.extend(turn, most)
        return flow

    def reach_back(self, shown: list[TurnMetrics], rows: int) -> bool:
        """Lay out some `rows` more before the oldest row there is; False if that is the first of all."""
        at = next(i for i, turn in enumerate(shown) if turn.turn.turn == self.oldest)
        turn, flow = self.flows[shown[at].turn.turn]
        if flow.first:
            first = line_start(turn, flow.width, len(flow.rows) + rows, flow.first, turn.n_rounds)
            longer = self._begin(turn, TextFlow(flow.width, flow.glyphs, flow.ledger, first))
            longer.extend(turn, flow.taken - first)
        elif at:
            self.oldest = shown[at - 1].turn.turn
        return bool(flow.first or at)

    def _begin(self, turn: TurnMetrics, flow: TextFlow) -> TextFlow:
        self.flows[turn.turn.turn] = (turn, flow)
        return flow

    def forget(self, shown: list[TurnMetrics]) -> None:
        """Drop the flows of all other turns."""
        numbers = {turn.turn.turn for turn in shown}
        self.flows = {number: flow for number, flow in self.flows.items() if number in numbers}

    def round_at(self, line: int, cell: int) -> int | None:
        """Position of the newest turn's round that is drawn at a cell of a body line."""
        found = self.drawn[line] if 0 <= line < len(self.drawn) else None
        newest = self.flows[max(self.flows)][1] if self.flows else None
        return None if found is None or found[0] is not newest else found[0].round_at(found[1], cell)


def _serves(flow: TextFlow, turn: TurnMetrics, rows: int) -> bool:
    """Whether a flow holds the rows that are asked for, and is not to be begun anew further on."""
    if flow.first and len(flow.rows) <= rows:
        return False
    behind, held = turn.n_rounds - flow.taken, turn.n_rounds - flow.first
    return behind <= LONG_ROUNDS and held <= (2 if flow.first else 1) * LONG_ROUNDS
