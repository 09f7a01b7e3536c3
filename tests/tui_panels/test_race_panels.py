from __future__ import annotations

import re
from dataclasses import replace

import pytest

from specmon.core.events import AnyEvent, Lane, TurnEnd
from specmon.core.metrics.race import standings
from specmon.tui.view import View
from specmon.tui.widgets.race_chart_panel import render_race_chart
from specmon.tui.widgets.race_lane_panel import render_race_lane
from specmon.tui.widgets.standings_panel import render_standings
from specmon.tui.widgets.text_state import TextState

from .conftest import fed, texts
from .streams import race_stream


def shown(events: list[AnyEvent], width: int = 160) -> list[str]:
    return texts(render_standings(View(ledger=fed(events), turn=-1), width, 8))


def test_standings_rank_by_tokens_at_equal_clock() -> None:
    race = standings(fed(race_stream(60)))
    rows = shown(race_stream(60))[2:5]
    expected = sorted(race.standings, key=lambda row: -row.tokens_at_horizon)
    assert [row.split()[1] for row in rows] == [standing.letter for standing in expected]


def test_standings_give_every_figure_of_the_lanes_whole_clock() -> None:
    ledger = fed(race_stream(60))
    race = standings(ledger)
    lines = shown(race_stream(60))
    assert "each lane's whole clock" in lines[0]
    assert f"ranked by tokens at equal lane clock, {race.horizon_ns / 1e6:,.0f} ms" in lines[0]
    assert any(row.tokens_at_horizon < row.n_tokens for row in race.standings)
    for place, line in zip(race.ranking, lines[2:5], strict=True):
        row = race.standings[place]
        n_tokens, n_rounds, tau = re.findall(r" {2,}([\d.]+)(?= {2})", line)[:3]
        assert (n_tokens, n_rounds) == (str(row.n_tokens), str(row.turn.n_rounds))
        assert tau == f"{(row.n_tokens - 1) / row.turn.n_rounds:.2f}"


def test_standings_mark_a_running_ratio_as_provisional() -> None:
    running = [event for event in race_stream(40) if not (isinstance(event, TurnEnd) and event.lane == 0)]
    rows = shown(running)
    assert any("× ~" in row and "equal to" in row for row in rows)
    assert any("provisional until both lanes finish" in row for row in rows)


def test_standings_of_different_recipes_give_no_ratio() -> None:
    events: list[AnyEvent] = []
    for event in race_stream(40):
        if isinstance(event, Lane) and event.lane == 2:
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            event = Lane(**{**fields, "recipe": "fp8"})
        events.append(event)
    row = next(row for row in shown(events) if "SSD" in row)
    assert "different recipe" in row
    assert "×" not in row


def failing(lane: int) -> list[AnyEvent]:
    """A race whose lane `lane` ends with an error."""
    events: list[AnyEvent] = []
    for event in race_stream(40):
        if isinstance(event, TurnEnd) and event.lane == lane:
            event = TurnEnd(
                t=event.t,
                lane=lane,
                stop_reason="error",
                n_tokens=event.n_tokens,
                rounds=event.rounds,
                error="out of memory",
            )
        events.append(event)
    return events


def test_panels_name_the_reference_where_the_first_lane_failed() -> None:
    events = failing(0)
    assert "vs B" in shown(events)[1]
    view = View(ledger=fed(events), turn=-1)
    assert "vs B" in texts(render_race_lane(view, 2, 80, 4, TextState()))[2]


def test_standings_show_a_failed_lane_as_dnf() -> None:
    events = failing(1)
    assert "DNF" in next(row for row in shown(events) if "SD K4" in row and "SSD" not in row)
    view = View(ledger=fed(events), turn=-1)
    assert "DNF" in texts(render_race_lane(view, 1, 80, 4, TextState()))[0]


def test_standings_keep_the_telling_columns_where_it_is_narrow() -> None:
    head = shown(race_stream(40), width=80)[1]
    for column in ("lane", "decoder", "tokens", "ms/token", "vs A", "output"):
        assert column in head
    assert "drain" not in head


def test_race_lane_shows_its_own_text_clock_and_tokens() -> None:
    ledger = fed(race_stream(40))
    view = View(ledger=ledger, turn=-1)
    for lane in (0, 1, 2):
        turn = ledger.lanes[lane].turns[0]
        lines = texts(render_race_lane(view, lane, 60, 10, TextState()))
        assert f"{turn.decode_ns / 1e6:,.0f} ms · {turn.n_tokens} tokens" in lines[0]
        assert lines[0].startswith(f"┌─ {'ABC'[lane]} {'·○●'[lane]} {turn.lane.decoder.upper()}")
    assert "◆" in "".join(texts(render_race_lane(view, 2, 60, 10, TextState()))[1:])


def test_race_lane_in_four_lines_adds_up_its_round() -> None:
    view = View(ledger=fed(race_stream(40)), turn=-1)
    _, _, progress, parts = texts(render_race_lane(view, 1, 80, 4, TextState()))
    assert "/1024" in progress
    assert "round 5.73 = draft 1.80 + verify 3.90 + .03" in parts
    assert "ms/token" in parts


def test_race_lane_that_is_not_there_says_so() -> None:
    assert (
        "not started" in texts(render_race_lane(View(ledger=fed(race_stream(4))), 7, 60, 8, TextState()))[1]
    )


def test_race_chart_draws_each_lane_with_its_own_sign_and_letter() -> None:
    lines = texts(render_race_chart(View(ledger=fed(race_stream(60)), turn=-1), 100, 12))
    body = "".join(lines[1:-1])
    assert {"·", "○", "●"} <= set(body)
    race = standings(fed(race_stream(60)))
    assert sorted(re.findall(r"[·○●] [ABC] \d+", body)) == sorted(
        f"{sign} {row.letter} {row.n_tokens}" for sign, row in zip("·○●", race.standings, strict=True)
    )


@pytest.mark.parametrize("ascii", [False, True])
def test_race_chart_label_stands_behind_its_own_line(ascii: bool) -> None:
    lines = texts(render_race_chart(View(ledger=fed(race_stream(60)), turn=-1, ascii=ascii), 157, 10))
    for letter, sign in zip("ABC", ".o*" if ascii else "·○●", strict=True):
        line = next(line for line in lines[1:-1] if f" {sign} {letter} " in line)
        assert line[line.index(f" {sign} {letter} ") - 1] == sign


def test_race_chart_label_never_stands_behind_another_lanes_line() -> None:
    """Lanes with the same figures draw one line: the lane drawn on top has its label there."""
    events = race_stream(60, ("ar", "ar"))
    for height in (4, 6, 12):
        lines = texts(render_race_chart(View(ledger=fed(events), turn=-1), 100, height))
        (behind,) = re.findall("[·○] [·○] ([AB])", "".join(lines[1:]))
        assert behind == "B"


@pytest.mark.parametrize("ascii", [False, True])
def test_race_chart_lanes_in_one_line_take_turns(ascii: bool) -> None:
    view = View(ledger=fed(race_stream(60, ("ar", "ar"))), turn=-1, ascii=ascii)
    one, other = ".o" if ascii else "·○"
    lines = texts(render_race_chart(view, 100, 12))[1:-2]
    drawn = [
        "".join(re.findall(f"[{one}{other}]", line.partition("A")[0].partition("B")[0])) for line in lines
    ]
    assert all(f"{one}{other}{one}{other}" in line for line in drawn if len(line) > 5)
    assert sum(line.count(one) for line in drawn) > 20
    assert sum(line.count(other) for line in drawn) > 20


def test_race_chart_labels_of_lanes_that_end_together_all_show() -> None:
    for height in (4, 6, 12):
        chart = render_race_chart(
            View(ledger=fed(race_stream(60, ("ssd", "ssd", "ssd"))), turn=-1), 80, height
        )
        assert re.findall("[ABC]", "".join(sorted("".join(texts(chart)[1:])))) == ["A", "B", "C"]


def test_race_chart_gives_every_lane_a_row_even_in_three() -> None:
    lines = texts(render_race_chart(View(ledger=fed(race_stream(60)), turn=-1), 80, 4))
    assert [sum(f" {letter} " in line for line in lines[1:]) for letter in "ABC"] == [1, 1, 1]


def test_panels_take_the_race_that_the_view_brings() -> None:
    ledger = fed(race_stream(30))
    view = View(ledger=ledger, turn=-1)
    brought = replace(view, race=standings(ledger))
    assert render_standings(view, 120, 8) == render_standings(brought, 120, 8)
    empty = replace(view, race=standings(fed([])))
    assert "no lane has started" in texts(render_standings(empty, 120, 8))[1]
