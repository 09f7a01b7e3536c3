from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmon.core.events import ClockSync, Decoder, Span
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.spans import measure, overlap, overlap_intervals
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import View
from specmon.tui.widgets.timeline import (
    MOST_ROUNDS,
    Stretch,
    TimelineState,
    covered_cells,
    lane_kinds,
    rounds_in,
    stretch,
)
from specmon.tui.widgets.timeline_panel import render_timeline

from .conftest import fed, texts
from .streams import StreamBuilder, ssd_stream


def turn_of(ledger: Ledger) -> TurnMetrics:
    return ledger.lanes[0].turns[0]


def spans(*kinds: tuple[str, int, int]) -> list[Span]:
    return [Span(0, "main", kind, start, end, 0) for kind, start, end in kinds]  # type: ignore[arg-type]


def test_cells_take_the_kind_that_fills_most_of_them() -> None:
    shown = Stretch(0, 10, 5)
    kinds = lane_kinds(spans(("verify", 0, 24), ("draft", 24, 40)), 0, shown)
    assert kinds == ["verify", "verify", "draft", "draft", None]


def test_short_work_keeps_a_cell_and_waiting_yields() -> None:
    shown = Stretch(0, 100, 2)
    assert lane_kinds(spans(("verify", 0, 90), ("accept", 90, 100)), 0, shown)[0] == "accept"
    assert lane_kinds(spans(("wait", 0, 85), ("verify", 85, 100)), 0, shown)[0] == "verify"


def test_spans_out_of_sight_or_of_another_device_draw_nothing() -> None:
    shown = Stretch(100, 10, 3)
    assert lane_kinds(spans(("verify", 0, 100), ("verify", 130, 200)), 0, shown) == [None] * 3
    assert lane_kinds(spans(("verify", 100, 130)), 1, shown) == [None] * 3
    assert lane_kinds(spans(("verify", 0, 999)), 0, shown) == ["verify"] * 3


@given(st.integers(-500, 500), st.integers(1, 90), st.integers(0, 800), st.integers(1, 60))
def test_any_span_stays_inside_its_cells(left: int, cell: int, start: int, length: int) -> None:
    shown = Stretch(left, cell, 12)
    kinds = lane_kinds(spans(("verify", start, start + length)), 0, shown)
    assert len(kinds) == 12
    for number, kind in enumerate(kinds):
        touches = start < left + cell * (number + 1) and start + length > left + cell * number
        assert (kind == "verify") == touches


def test_overlap_intervals_are_those_that_metrics_count() -> None:
    rounds = turn_of(fed(ssd_stream(60))).rounds
    both = overlap(rounds, 2)
    used, every = overlap_intervals(rounds)
    assert both is not None
    assert (measure(used), measure(every)) == (both.used_ns, both.total_ns)
    assert both.wasted_ns > 0


def test_covered_cells_stay_in_the_stretch() -> None:
    assert covered_cells([(-50, 5), (9, 31), (90, 999)], Stretch(0, 10, 5)) == {1, 2}


def test_follow_ends_with_the_newest_round() -> None:
    turn = turn_of(fed(ssd_stream(60)))
    shown = stretch(turn, None, 140, TimelineState())
    assert shown.left == turn.rounds[55].t0
    assert shown.right >= turn.rounds[-1].t1


def test_a_selected_round_is_in_sight() -> None:
    turn = turn_of(fed(ssd_stream(60)))
    for selected in (0, 13, 59):
        shown = stretch(turn, selected, 140, TimelineState())
        assert shown.left <= turn.rounds[selected].t0
        assert turn.rounds[selected].t1 <= shown.right


def test_a_panned_timeline_stays_where_it_is() -> None:
    events = ssd_stream(60)
    state = TimelineState(50e6, 100_000)
    early, late = turn_of(fed(events[:30])), turn_of(fed(events))
    assert stretch(early, None, 140, state) == stretch(late, 7, 140, state) == Stretch(50e6, 100_000, 140)


def test_zooming_out_ends_before_it_is_costly() -> None:
    turn = turn_of(fed(ssd_stream(1_000)))
    shown = stretch(turn, None, 140, TimelineState(None, 1e15))
    assert len(rounds_in(turn.rounds, shown)) <= MOST_ROUNDS * 1.5


def test_rounds_in_sight_are_found_with_their_neighbours() -> None:
    rounds = turn_of(fed(ssd_stream(60))).rounds
    shown = Stretch(rounds[10].t0 + 1, (rounds[12].t1 - rounds[10].t0 - 2) / 50, 50)
    assert list(rounds_in(rounds, shown)) == [9, 10, 11, 12, 13]


def test_timeline_has_a_lane_a_device_and_every_kind_its_sign() -> None:
    lines = texts(render_timeline(View(ledger=fed(ssd_stream(40))), 160, 7, TimelineState()))
    axis, target, draft, both, rounds = lines[1:6]
    assert axis.startswith("│ ms")
    assert target.startswith("│ cuda:0 target ▓")
    assert {"▓", "a"} <= set(target)
    assert draft.startswith("│ cuda:1 draft ")
    assert {"░", "h"} <= set(draft)
    assert "═" in both
    assert "39" in rounds


def test_timeline_tells_used_from_wasted_overlap() -> None:
    ledger = fed(StreamBuilder().header().turn().play([(1, True), (1, False), (1, True)]).events)
    lines = texts(render_timeline(View(ledger=ledger), 160, 7, TimelineState()))
    assert {"═", "×"} <= set(lines[4])
    assert "2 ◇rank" in lines[5]
    in_ascii = texts(render_timeline(View(ledger=ledger, ascii=True), 160, 7, TimelineState()))
    assert {"=", "x"} <= set(in_ascii[4])


def test_timeline_marks_the_selected_round() -> None:
    lines = texts(render_timeline(View(ledger=fed(ssd_stream(40)), selected=20), 160, 7, TimelineState()))
    assert "20 ▲" in lines[5]
    assert "pinned" in lines[0]


def test_timeline_in_four_lines_keeps_lanes_and_rounds() -> None:
    rule, target, draft, rounds = texts(
        render_timeline(View(ledger=fed(ssd_stream(40))), 80, 4, TimelineState())
    )
    assert "overlap" in rule
    assert "used" in rule
    assert target.startswith(" cuda:0 ")
    assert draft.startswith(" cuda:1 ")
    assert "ms" in rounds


def test_high_timeline_shows_the_time_before_on_further_rows() -> None:
    lines = texts(render_timeline(View(ledger=fed(ssd_stream(60))), 160, 19, TimelineState()))
    targets = [line for line in lines if "cuda:0" in line]
    rounds = [int(line.split()[2]) for line in lines if line.startswith("│ round")]
    assert len(targets) == 3
    assert rounds == sorted(rounds)
    assert " 59 " in [line for line in lines if line.startswith("│ round")][-1]


def test_high_timeline_draws_nothing_after_the_newest_round() -> None:
    lines = texts(render_timeline(View(ledger=fed(ssd_stream(3))), 160, 19, TimelineState()))
    assert sum("cuda:0" in line for line in lines) == 1


def test_timeline_of_one_device_has_no_overlap() -> None:
    ledger = fed(StreamBuilder("ar").header().turn().rounds(9).events)
    lines = texts(render_timeline(View(ledger=ledger), 160, 7, TimelineState()))
    assert "overlap n/a: one device" in lines[0]
    assert not any(line.startswith("│ overlap") for line in lines)


def test_timeline_names_the_bound_of_the_clocks() -> None:
    events = ssd_stream(9)
    events.append(ClockSync(t=0, device="cuda:1", offset_ns=5, bound_ns=300))
    assert "clocks ±0.3 µs" in texts(render_timeline(View(ledger=fed(events)), 170, 7, TimelineState()))[0]


@pytest.mark.parametrize(
    ("width", "signs"),
    [
        (80, ("▓ verify", "░ branch", "d draft")),
        (100, ("d draft", "a accept", "h handoff")),
        (157, ("h handoff", "× wasted", "· wait", "follow")),
    ],
)
def test_timeline_explains_as_many_signs_as_fit(width: int, signs: tuple[str, ...]) -> None:
    title = texts(render_timeline(View(ledger=fed(ssd_stream(20))), width, 7, TimelineState()))[0]
    assert all(sign in title for sign in signs)
    assert "overlap" in title


@pytest.mark.parametrize(
    ("decoder", "foreign"), [("sd", ("branch", "wasted")), ("ar", ("branch", "d draft"))]
)
def test_timeline_explains_no_sign_of_another_decoder(decoder: Decoder, foreign: tuple[str, ...]) -> None:
    events = StreamBuilder(decoder).header().turn().rounds(9).events
    title = texts(render_timeline(View(ledger=fed(events)), 160, 7, TimelineState()))[0]
    assert "▓ verify" in title
    assert not any(name in title for name in foreign)


def test_panned_timeline_says_how_to_come_back_in_80_columns() -> None:
    lines = texts(render_timeline(View(ledger=fed(ssd_stream(20))), 80, 4, TimelineState(None, 1.0)))
    assert "f fits and follows" in lines[0]


@pytest.mark.parametrize(
    "state", [TimelineState(-1e12, 50.0), TimelineState(1e15, 1e9), TimelineState(None, 1.0)]
)
def test_timeline_far_out_of_range_draws(state: TimelineState) -> None:
    lines = texts(render_timeline(View(ledger=fed(ssd_stream(20))), 120, 7, state))
    assert len(lines) == 7
    assert "f fits and follows" in lines[0]


@settings(max_examples=20, deadline=None)
@given(left=st.floats(-1e9, 1e12), cell_ns=st.floats(0.1, 1e12), width=st.integers(1, 200))
def test_timeline_draws_at_any_pan_and_zoom(left: float, cell_ns: float, width: int) -> None:
    view = View(ledger=fed(ssd_stream(20)))
    assert len(render_timeline(view, width, 7, TimelineState(left, cell_ns))) == 7
