"""What panel tests draw: every panel's renderer by name, and ledgers fed with whole streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from specmon.core.events import AnyEvent
from specmon.core.metrics.ledger import Ledger
from specmon.tui.view import View
from specmon.tui.widgets.acceptance_panel import render_acceptance
from specmon.tui.widgets.bandwidth_panel import render_bandwidth
from specmon.tui.widgets.lines import Line, plain
from specmon.tui.widgets.ms_per_token_panel import render_ms_per_token
from specmon.tui.widgets.race_chart_panel import render_race_chart
from specmon.tui.widgets.race_lane_panel import render_race_lane
from specmon.tui.widgets.round_panel import render_round
from specmon.tui.widgets.rounds_panel import render_rounds
from specmon.tui.widgets.shares_panel import render_shares
from specmon.tui.widgets.standings_panel import render_standings
from specmon.tui.widgets.status_line import render_status
from specmon.tui.widgets.text_panel import render_text
from specmon.tui.widgets.text_state import TextState
from specmon.tui.widgets.timeline import TimelineState
from specmon.tui.widgets.timeline_panel import render_timeline
from specmon.tui.widgets.why_line import render_why

Render = Callable[[View, int, int], list[Line]]

RENDERERS: dict[str, Render] = {
    "text": lambda view, width, height: render_text(view, width, height, TextState()),
    "rounds": render_rounds,
    "round": render_round,
    "shares": render_shares,
    "timeline": lambda view, width, height: render_timeline(view, width, height, TimelineState()),
    "bandwidth": render_bandwidth,
    "ms-per-token": render_ms_per_token,
    "acceptance": render_acceptance,
    "why": render_why,
    "status": render_status,
    "standings": render_standings,
    "race-lane": lambda view, width, height: render_race_lane(view, 0, width, height, TextState()),
    "race-chart": render_race_chart,
}


def fed(events: Iterable[AnyEvent]) -> Ledger:
    """A ledger that took these events."""
    ledger = Ledger()
    for event in events:
        ledger.feed(event)
    return ledger


def texts(lines: Iterable[Line]) -> list[str]:
    """Lines without roles."""
    return [plain(line) for line in lines]


@pytest.fixture(params=sorted(RENDERERS))
def render(request: pytest.FixtureRequest) -> Render:
    """Each panel's renderer in turn."""
    return RENDERERS[request.param]
