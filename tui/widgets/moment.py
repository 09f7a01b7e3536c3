"""What a view points at: its lane, its turn, and the round in focus."""

from __future__ import annotations

from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.race import Race, standings
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View


def lane_of(view: View) -> LaneMetrics | None:
    """The view's lane, None before it is known."""
    return view.ledger.lanes.get(view.lane)


def turn_of(view: View) -> TurnMetrics | None:
    """The view's turn, None before it started."""
    lane = lane_of(view)
    if lane is None or not -len(lane.turns) <= view.turn < len(lane.turns):
        return None
    return lane.turns[view.turn]


def race_of(view: View) -> Race:
    """The race as it stands, as the view brings it or worked out now."""
    return standings(view.ledger, view.turn) if view.race is None else view.race


def focus_of(view: View) -> int | None:
    """Position, in the turn's rounds, of the round pointed at, else of the newest; None without rounds."""
    turn = turn_of(view)
    if turn is None or not turn.rounds:
        return None
    newest = len(turn.rounds) - 1
    return newest if view.pointed_at is None else min(max(view.pointed_at, 0), newest)
