"""The race screen: loading lanes, running, leaving."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from specmon.core.engine.messages import (
    Cancel,
    Generate,
    Idle,
    LaneConfig,
    Load,
    Progress,
    Race,
    Ready,
    Refused,
    Request,
)
from specmon.core.events import Round, Span
from specmon.tui.app import SpecmonApp, screen_text
from specmon.tui.screens.lane import LaneScreen
from specmon.tui.screens.monitor import MonitorScreen
from specmon.tui.screens.race import RaceScreen
from specmon.tui.screens.race_sheets import DifferenceSheet
from specmon.tui.widgets.lines import plain

from .conftest import HEADER, MS, FakeEngine, lane_event, turn_events
from .test_monitor import decoding, press

LiveApp = Callable[..., SpecmonApp]
DECODERS = ("ar", "sd", "ssd")
LANES = tuple(LaneConfig(decoder=decoder) for decoder in DECODERS)  # type: ignore[arg-type]
REQUEST = Request(messages=(("user", "merge"),))
SIZE = (160, 48)


async def settle(pilot: Pilot[None]) -> RaceScreen:
    app = pilot.app
    assert isinstance(app, SpecmonApp)
    await pilot.pause(0)
    app.setup.clock.advance(0.3)  # type: ignore[attr-defined]
    app.tick()
    while app.behind:
        app.tick()
    await pilot.pause(0)
    assert isinstance(app.stage, RaceScreen)
    return app.stage


async def racing(pilot: Pilot[None], engine: FakeEngine) -> RaceScreen:
    """All lanes loaded and some rounds of each out."""
    await settle(pilot)
    for lane, decoder in enumerate(DECODERS):
        engine.give(*[HEADER][lane:], lane_event(lane, decoder), Ready(lane=lane), Idle(of="Load"))
        await settle(pilot)
    for lane in range(3):
        engine.give(*(msgspec.structs.replace(e, lane=lane) for e in turn_events(0, 8 + lane, end=False)))
    return await settle(pilot)


async def test_loading_says_which_lane_it_is_for(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.give(HEADER, lane_event(0, "ar"), Ready(lane=0), Idle(of="Load"))
        await settle(pilot)
        engine.give(Progress(what="loading x"))
        race = await settle(pilot)
        assert "LOADING lane B, SD K4: loading x" in plain(race.lines["fair"].lines[0])
        titles = [plain(panel._lines[0]) for panel in race.panels[:3]]
        assert all(
            f" {name} " in title
            for name, title in zip(("A · AR", "B ○ SD K4", "C ● SSD K4"), titles, strict=True)
        )


async def test_lanes_load_one_after_the_other_and_then_race(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert engine.commands == [Load(lane=0, config=LANES[0])]
        await racing(pilot, engine)
        assert [c.lane for c in engine.sent(Load)] == [0, 1, 2]  # type: ignore[union-attr]
        assert engine.sent(Race) == [Race(request=REQUEST)]
        assert not engine.sent(Generate)


async def test_race_shows_every_lane_and_their_equality(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        screen = await racing(pilot, engine)
        assert {"lane-0", "lane-1", "lane-2", "standings", "chart"} <= set(screen.deck.places)
        assert [s.n_tokens for s in screen.standings.standings] == [27, 30, 35]
        assert "B equal to 27" in plain(screen.lines["output"].lines[0])


async def test_x_stops_and_escape_leaves_when_it_is_over(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        await racing(pilot, engine)
        await press(pilot, "x")
        assert engine.sent(Cancel) == [Cancel()]
        await press(pilot, "escape")
        engine.give(Idle(of="Race"))
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        app.tick()
        await pilot.pause()
        assert isinstance(app.stage, MonitorScreen)
        assert engine.sent(Load)[-1] == Load(lane=0, config=LaneConfig())


async def test_leaving_restores_the_conversation(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        engine.give(turn_events(0, 12)[-1], Idle(of="Generate"))
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        app.tick()
        await press(pilot, "R")
        screen = await racing(pilot, engine)
        assert screen.request.messages == (("user", "hi"),)
        engine.give(Idle(of="Race"))
        await settle(pilot)
        await press(pilot, "escape")
        await pilot.pause()
        assert app.stage is monitor
        assert len(monitor.rounds) == 12


async def test_refused_lane_ends_the_loading(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        engine.give(Refused(of="Load", message="No such model."))
        screen = await settle(pilot)
        assert "No such model." in plain(screen.lines["hints"].lines[0])
        assert not engine.sent(Race)
        assert screen.phase == "over"


async def test_number_opens_a_lane_as_a_monitor_while_the_race_goes_on(
    live_app: LiveApp, engine: FakeEngine
) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        race = await racing(pilot, engine)
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        await press(pilot, "3")
        lane = app.stage
        assert isinstance(lane, LaneScreen)
        assert (lane.lane, len(lane.rounds)) == (2, 10)
        await pilot.pause()
        assert "why" in lane.deck.places
        await press(pilot, "1")
        assert lane.zoomed == "text"
        engine.give(Idle(of="Race"))
        app.tick()
        assert race.phase == "over"
        await press(pilot, "escape", "escape")
        assert app.stage is race


async def test_same_race_runs_again_with_n(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        race = await racing(pilot, engine)
        await press(pilot, "N")
        assert len(engine.sent(Race)) == 1  # the first still runs
        engine.give(Idle(of="Race"))
        await settle(pilot)
        await press(pilot, "N")
        assert len(engine.sent(Race)) == 2
        for lane in range(3):
            engine.give(*(msgspec.structs.replace(e, lane=lane) for e in turn_events(1, 3, start=9_000 * MS)))
        await settle(pilot)
        assert [s.turn.turn.turn for s in race.standings.standings] == [1, 1, 1]


async def test_first_difference_is_shown_token_by_token(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        race = await settle(pilot)
        for lane, decoder in enumerate(DECODERS):
            engine.give(*[HEADER][lane:], lane_event(lane, decoder), Ready(lane=lane), Idle(of="Load"))
            await settle(pilot)
        for lane in range(3):
            events = [msgspec.structs.replace(e, lane=lane) for e in turn_events(0, 8, end=False)]
            if lane == 1:
                changed = msgspec.structs.replace(
                    events[3], bonus=777, emitted=(*events[3].emitted[:-1], 777)
                )  # type: ignore[union-attr]
                events[3] = changed
            engine.give(*events)
        await settle(pilot)
        assert [s.verdict.output for s in race.standings.standings][1] == "differs at 8"
        await press(pilot, "=")
        sheet = pilot.app.screen
        assert isinstance(sheet, DifferenceSheet)
        rows = [plain(row) for row in sheet.sheet_lines(94)]
        assert "Token 8 (from 0) is the first that differs" in rows[0]
        (here,) = [row for row in rows[3:] if row.startswith("    8 ")]
        assert "#901" in here
        assert "≠" in here
        assert "#777" in here


async def test_equal_outputs_are_said_to_be_equal(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        race = await racing(pilot, engine)
        await press(pilot, "=")
        assert "B equal to 27 · C equal to 27" in plain(race.lines["hints"].lines[0])


async def test_c_lets_the_clocks_start_with_the_prefill(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=SIZE) as pilot:
        race = await racing(pilot, engine)
        apart = race.standings
        await press(pilot, "c")
        counted = race.standings
        assert counted.horizon_ns == apart.horizon_ns + 41 * MS
        row = counted.standings[0]
        assert (row.tokens_at(41 * MS - 1), row.tokens_at(41 * MS)) == (0, 1)
        assert row.tokens_at_horizon == apart.standings[0].tokens_at_horizon
        assert row.verdict == apart.standings[0].verdict
        assert "prefill counted" in plain(race.lines["fair"].lines[0])


@pytest.mark.parametrize("size", [SIZE, (80, 24)])
async def test_long_drain_is_said_to_make_turns_too_short(
    live_app: LiveApp, engine: FakeEngine, size: tuple[int, int]
) -> None:
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=size) as pilot:
        race = await racing(pilot, engine)
        assert "too short" not in plain(race.lines["fair"].lines[0])
        last = turn_events(0, 9, end=False)[-1]
        assert isinstance(last, Round)
        late = Span(1, "draft", "branch_draft", last.t1, last.t1 + 9 * MS, last.index)
        engine.give(msgspec.structs.replace(last, lane=0, spans=(*last.spans, late)))
        race = await settle(pilot)
        fair = plain(race.lines["fair"].lines[0])
        assert re.search("urns too short.*: A", fair)
        assert len(fair.rstrip()) <= size[0]


async def test_every_key_is_harmless(live_app: LiveApp, engine: FakeEngine) -> None:
    names = [name for b in RaceScreen.BINDINGS if isinstance(b, Binding) for name in b.key.split(",")]
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=(80, 24)) as pilot:
        await racing(pilot, engine)
        for name in names:
            if name not in ("q", "escape"):
                await press(pilot, name)
        assert pilot.app.is_running


@pytest.mark.parametrize("size", [SIZE, (80, 24)])
async def test_race_is_ascii_when_asked(live_app: LiveApp, engine: FakeEngine, size: tuple[int, int]) -> None:
    async with live_app(REQUEST, race_lanes=LANES, ascii=True).run_test(size=size) as pilot:
        await racing(pilot, engine)
        await pilot.pause()
        shown = screen_text(pilot.app.screen)
        assert "RACE" in shown
        assert shown.isascii()
