"""A race lane: its text as it comes, its clock, and where its rounds go."""

from __future__ import annotations

from dataclasses import replace

from specmon.core.metrics.race import Standing
from specmon.tui.view import View
from specmon.tui.widgets.bars import bar
from specmon.tui.widgets.cells import width as cells_of
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_height, body_width, fit, in_panel, is_framed, spread
from specmon.tui.widgets.moment import race_of
from specmon.tui.widgets.numbers import count, ms, percent, short
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.text_panel import text_body
from specmon.tui.widgets.text_state import TextState

LETTERS = "ABCD"
LANE_ROLES = ("device0", "device1", "hit", "bonus")


def render_race_lane(
    view: View, lane: int, width: int, height: int, state: TextState, planned: str = ""
) -> list[Line]:
    """Draw one lane's text; in a low panel one line of it, its progress and its round.

    `planned` names a lane that has not started.
    """
    signs = glyphs(view.ascii)
    race = race_of(view)
    standing = next((s for s in race.standings if s.lane == lane), None)
    if standing is None:
        name = f"{LETTERS[lane]} {signs.series[lane]} {planned}" if planned else f"lane {lane + 1}"
        title = Title(number=None, name=name, note=[], keep_case=True)
        return in_panel(title, [[("not started", "muted")]], width, height, signs)
    clock: Line = [
        (f"{ms(standing.clock_ns, 0)} ms · ", "title"),
        (f"{count(standing.n_tokens)} tokens", "muted"),
    ]
    note: Line = [_state(standing, lane in view.cut_lanes, signs), *clock]
    name = f"{standing.letter} {lane_sign(standing, signs)} {standing.label}"
    cells, lines = body_width(width, height), body_height(width, height)
    turn = view.ledger.lanes[lane].turns.index(standing.turn)
    moment = replace(view, lane=lane, turn=turn, selected=None)
    if is_framed(width, height):
        body = text_body(moment, cells, lines, state)
    else:
        text = text_body(replace(moment, fates=False), cells, 1, state)
        body = [
            *(text or [[]]),
            _progress(standing, race.reference_letter, cells, signs),
            _round(standing, cells),
        ]
    return in_panel(Title(number=None, name=name, note=note, keep_case=True), body, width, height, signs)


def _state(standing: Standing, cut: bool, signs: Glyphs) -> tuple[str, str]:
    """How the lane stands: at work, out of the race, or at the end of its recording."""
    if standing.failed:
        return ("DNF ", "error")
    if cut:
        return ("recording ends ", "warning")
    return ("", "muted") if standing.finished else (f"{signs.pointer} ", "accent")


def lane_role(standing: Standing) -> str:
    """The colour a lane has in every race panel."""
    return LANE_ROLES[(ord(standing.letter) - ord("A")) % len(LANE_ROLES)]


def lane_sign(standing: Standing, signs: Glyphs) -> str:
    """The sign a lane's curve is drawn with, which tells lanes apart without colour."""
    return signs.series[(ord(standing.letter) - ord("A")) % len(signs.series)]


def ratio_text(standing: Standing, signs: Glyphs) -> str:
    """How much faster than the reference: "2.33× ~" until both are finished, a dash where none is due."""
    ratio = standing.verdict.ratio
    if ratio is None:
        return signs.unreached
    return f"{ratio:.2f}{signs.times}{' ~' if standing.verdict.provisional else ''}"


def _progress(standing: Standing, reference: str, cells: int, signs: Glyphs) -> Line:
    limit = standing.turn.turn.max_new_tokens
    right: Line = [
        (f"  {standing.n_tokens:>4}/{limit}  ", "text"),
        (f"vs {reference}", "muted"),
        (f" {ratio_text(standing, signs):<8}", "title"),
    ]
    room = max(cells - sum(cells_of(text) for text, _ in right), 0)
    filled = bar(standing.n_tokens / limit if limit else 0.0, room, signs)
    return fit(
        [(filled, lane_role(standing)), (signs.rest * (room - cells_of(filled)), "idle"), *right], cells
    )


def _round(standing: Standing, cells: int) -> Line:
    """τ, and the round as the sum of its parts; at the right ms/token and % of SOL."""
    turn = standing.turn
    if turn.ms_per_round is None or standing.verify_ms is None:
        return [("no round yet", "muted")]
    tau = "n/a" if turn.tokens_per_round is None else f"{turn.tokens_per_round:.2f}"
    draft = f"draft {_figure(standing.draft_ms)} + " if turn.lane.decoder != "ar" else ""
    parts = f"{draft}verify {_figure(standing.verify_ms)} + {_figure(standing.other_ms)}"
    left: Line = [
        ("τ ", "muted"),
        (tau, "text"),
        (f"  round {_figure(turn.ms_per_round)} = {parts}", "muted"),
    ]
    if turn.branch_hit_rate is not None:
        left += [("  hit ", "muted"), (short(turn.branch_hit_rate), "hit")]
    right: Line = []
    if turn.ms_per_token is not None:
        right = [(f"{turn.ms_per_token:.2f}", "title"), (" ms/token", "muted")]
    if standing.bandwidths and (fraction := standing.bandwidths[0].whole_fraction) is not None:
        right.append((f" {percent(fraction)}", "text"))
    return spread(left, right, cells)


def _figure(value: float | None) -> str:
    """Milliseconds in three figures: ".25", "3.90", "14.2", "118"."""
    if value is None or value < 1:
        return short(value)
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


class RaceLanePanel(Panel):
    """One lane of a race, by its number in the stream."""

    def __init__(
        self,
        lane: int,
        *,
        planned: str = "",
        palette: Palette | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(palette=palette, id=id, classes=classes)
        self.lane = lane
        self.planned = planned
        self._state = TextState()

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_race_lane(view, self.lane, width, height, self._state, self.planned)
