"""The race screen: loading lanes, running, leaving."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from textual.binding import Binding
from textual.pilot import Pilot

from specmon.core.engine.messages import (
    Cancel,
    Generate,
    Idle,
    LaneConfig,
    Load,
    Race,
    Ready,
    Refused,
    Request,
)
from specmon.tui.app import SpecmonApp
from specmon.tui.screens.monitor import MonitorScreen
from specmon.tui.screens.race import RaceScreen
from specmon.tui.widgets.lines import plain

from .conftest import HEADER, FakeEngine, lane_event, turn_events
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


async def test_every_key_is_harmless(live_app: LiveApp, engine: FakeEngine) -> None:
    names = [name for b in RaceScreen.BINDINGS if isinstance(b, Binding) for name in b.key.split(",")]
    async with live_app(REQUEST, race_lanes=LANES).run_test(size=(80, 24)) as pilot:
        await racing(pilot, engine)
        for name in names:
            if name not in ("q", "escape"):
                await press(pilot, name)
        assert pilot.app.is_running
