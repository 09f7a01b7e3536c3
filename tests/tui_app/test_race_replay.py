"""Recorded races: on the race screen, as recordings side by side, and from there into a lane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.binding import Binding
from textual.pilot import Pilot

from specmon.core.errors import UsageError
from specmon.core.events import AnyEvent, Prefill, Round, Turn, TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.race import standings
from specmon.tui.app import SpecmonApp
from specmon.tui.feeds.replay import ReplayFeed
from specmon.tui.feeds.side_by_side import SideBySideFeed
from specmon.tui.screens.race_replay import RaceReplayScreen
from specmon.tui.screens.replay import ReplayScreen
from specmon.tui.widgets.lines import plain

from .conftest import HEADER, MS, FakeClock, bursts, lane_event, turn_events
from .test_monitor import press

SIZE = (160, 48)
Write = Callable[..., Path]


def chat(
    rounds: int, *, decoder: str = "ssd", start: int = MS, prompt: str = "Same?", end: bool = True
) -> list[AnyEvent]:
    events = [HEADER, lane_event(0, decoder), *turn_events(0, rounds, start=start, end=end)]
    return [replace(e, prompt=prompt) if isinstance(e, Turn) else e for e in events]


def app_of(feed: ReplayFeed, clock: FakeClock, tmp_path: Path) -> SpecmonApp:
    return SpecmonApp(feed, recordings=tmp_path / "recordings", refresh_hz=0, clock=clock)


async def settle(pilot: Pilot[None], seconds: float = 0.3) -> RaceReplayScreen:
    app = pilot.app
    assert isinstance(app, SpecmonApp)
    await pilot.pause(0)
    app.setup.clock.advance(seconds)  # type: ignore[attr-defined]
    app.tick()
    await pilot.pause(0)
    assert isinstance(app.stage, RaceReplayScreen)
    return app.stage


def line(screen: RaceReplayScreen, name: str) -> str:
    return plain(screen.lines[name].lines[0])


async def test_race_file_replays_on_the_race_screen(write: Write, clock: FakeClock, tmp_path: Path) -> None:
    events = list(bursts())
    feed = ReplayFeed(write("race", events), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space", "end")
        assert {"lane-0", "lane-1", "standings", "chart", "strip"} <= set(screen.deck.places)
        live = Ledger()
        for event in events:
            live.feed(event)
        ours, theirs = screen.standings, standings(live)
        assert [s.verdict for s in ours.standings] == [s.verdict for s in theirs.standings]
        assert (ours.horizon_ns, ours.wall_ns) == (theirs.horizon_ns, theirs.wall_ns)
        assert "REPLAY RACE ▌▌" in line(screen, "title")
        await press(pilot, "home", "]", "]", "]")
        assert [s.turn.n_rounds for s in screen.standings.standings] == [2, 0]


async def test_number_opens_a_lane_as_a_monitor_and_escape_comes_back(
    write: Write, clock: FakeClock, tmp_path: Path
) -> None:
    feed = ReplayFeed(write("race", list(bursts())), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=SIZE) as pilot:
        board = await settle(pilot)
        await press(pilot, "space", "end", "2")
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        lane = app.stage
        assert isinstance(lane, ReplayScreen)
        assert lane.lane_metrics is not None
        assert lane.lane_metrics.lane.decoder == "ssd"
        assert len(lane.rounds) == 24
        await press(pilot, "[", "5")
        assert lane.zoomed == "timeline"
        await press(pilot, "escape", "escape")
        assert app.stage is board
        assert [s.turn.n_rounds for s in board.standings.standings] == [24, 23]
        await press(pilot, "4")
        assert "no such lane" in line(board, "hints")


async def test_recordings_side_by_side_start_where_they_begin_to_decode(
    write: Write, clock: FakeClock, tmp_path: Path
) -> None:
    a = write("a", chat(12, start=5_000 * MS))
    b = write("b", chat(12, decoder="sd"))
    feed = SideBySideFeed((a, b), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space", "end")
        first, second = (s.turn for s in screen.standings.standings)
        assert first.rounds[0].t0 == second.rounds[0].t0
        assert first.text == second.text
        assert feed.unlike == {}
        assert screen.standings.standings[1].verdict.ratio == 1.0
        assert "a.session + b.session" in line(screen, "title")
        assert "Wall" not in line(screen, "fair")


async def test_unlike_recordings_are_named_and_get_no_ratio(
    write: Write, clock: FakeClock, tmp_path: Path
) -> None:
    slow = [
        replace(e, devices=tuple(replace(d, model="other") for d in e.devices)) if e is HEADER else e
        for e in chat(12, prompt="Other?")
    ]
    paths = write("a", chat(12)), write("b", slow)
    async with app_of(SideBySideFeed(paths, clock=clock), clock, tmp_path).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space", "end")
        assert "no ratio: different prompt, hardware" in line(screen, "fair")
        assert [s.verdict.ratio for s in screen.standings.standings] == [1.0, None]
        assert "×" not in screen.standings.standings[1].verdict.output
        await press(pilot, "=")
        assert "B different prompt" in line(screen, "hints")


@pytest.mark.parametrize("size", [SIZE, (80, 24)])
async def test_lane_that_differs_is_named_and_the_others_keep_their_ratio(
    write: Write, clock: FakeClock, tmp_path: Path, size: tuple[int, int]
) -> None:
    paths = write("a", chat(12)), write("b", chat(12)), write("c", chat(12, prompt="Other?"))
    async with app_of(SideBySideFeed(paths, clock=clock), clock, tmp_path).run_test(size=size) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space", "end")
        assert [s.verdict.ratio for s in screen.standings.standings] == [1.0, 1.0, None]
        assert "no ratio for C: different prompt" in line(screen, "fair")
        assert "B equal  C different prompt" in line(screen, "output")


@pytest.mark.parametrize("size", [SIZE, (80, 24)])
async def test_shorter_recording_ends_and_says_so(
    write: Write, clock: FakeClock, tmp_path: Path, size: tuple[int, int]
) -> None:
    paths = write("a", chat(12)), write("b", chat(5, end=False), closed=False)
    async with app_of(SideBySideFeed(paths, clock=clock), clock, tmp_path).run_test(size=size) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space")
        assert not screen.feed.cut_here
        await press(pilot, "end")
        assert screen.feed.cut_here == {1}
        lane = screen.panels[1]
        assert any("recording ends" in plain(row) for row in lane.draw(screen.view(), 60, 8))
        assert screen.standings.standings[1].verdict.provisional


def test_torn_recording_ends_in_the_strip(write: Write, clock: FakeClock, tmp_path: Path) -> None:
    feed = ReplayFeed(write("torn", chat(5, end=False), closed=False), clock=clock)
    feed.start()
    feed.poll()
    feed.playback.go(3)
    assert not feed.cut_here
    feed.playback.go(5)
    assert feed.cut_here == {0}


def test_side_by_side_takes_two_to_four_lanes(write: Write, clock: FakeClock) -> None:
    race, one = write("race", list(bursts())), write("one", chat(3))
    with pytest.raises(UsageError, match="5 lanes"):
        SideBySideFeed((race, race, one), clock=clock).start()
    with pytest.raises(UsageError, match="1 lanes"):
        SideBySideFeed((one, write("none", [HEADER])), clock=clock).start()
    SideBySideFeed((race, one), clock=clock).start()


async def test_every_key_is_harmless(write: Write, clock: FakeClock, tmp_path: Path) -> None:
    names = [name for b in RaceReplayScreen.BINDINGS if isinstance(b, Binding) for name in b.key.split(",")]
    feed = ReplayFeed(write("race", list(bursts())), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for name in names:
            if name != "q":
                await press(pilot, name, "escape", "escape")
        await settle(pilot)
        assert pilot.app.is_running


async def test_turns_are_paired_and_the_turn_keys_go_from_pair_to_pair(
    write: Write, clock: FakeClock, tmp_path: Path
) -> None:
    other = [replace(e, prompt="Other?") if isinstance(e, Turn) else e for e in turn_events(1, 6)]
    two = [*chat(4), *turn_events(1, 6, start=9_000 * MS), *turn_events(2, 3, start=19_000 * MS)]
    feed = SideBySideFeed((write("three", two), write("two", [*chat(3), *other])), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space", "end")
        assert [s.turn.n_rounds for s in screen.standings.standings] == [6, 6]
        assert "turn 2/2" in line(screen, "title")
        assert "no ratio: different prompt" in line(screen, "fair")
        assert "3 and 2 turns: of each only the first 2 are paired" in line(screen, "fair")
        assert any("Other?" in plain(row) for row in screen.panels[1].draw(screen.view(), 60, 20))
        await press(pilot, "{", "{", "]")
        assert "turn 1/2" in line(screen, "title")
        assert "no ratio" not in line(screen, "fair")
        assert [s.turn.turn.turn for s in screen.standings.standings] == [0, 0]
        await press(pilot, "}")
        assert "no ratio: different prompt" in line(screen, "fair")


async def test_unpaired_turns_are_said_in_a_small_terminal(
    write: Write, clock: FakeClock, tmp_path: Path
) -> None:
    two = [*chat(4), *turn_events(1, 6, start=9_000 * MS)]
    feed = SideBySideFeed((write("two", two), write("one", chat(3))), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=(80, 24)) as pilot:
        screen = await settle(pilot)
        assert "2 and 1 turns: of each only the first is paired" in line(screen, "output")


async def test_lanes_show_the_text_of_the_turn_that_is_raced(
    write: Write, clock: FakeClock, tmp_path: Path
) -> None:
    """A race run twice in one recording."""
    again = [
        replace(e, turn=1, **({"prompt": "Again?"} if isinstance(e, Turn) else {}))
        for e in bursts()
        if isinstance(e, Round | Prefill | Turn | TurnEnd)
    ]
    feed = ReplayFeed(write("twice", [*bursts(), *again]), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "space", "end")
        assert any("Again?" in plain(row) for row in screen.panels[1].draw(screen.view(), 60, 40))


async def test_race_in_a_chat_is_seen_as_one_with_upper_r(
    write: Callable[..., Path], clock: FakeClock, tmp_path: Path
) -> None:
    race = [replace(e, turn=1) for e in bursts() if isinstance(e, Round | Turn | TurnEnd)]
    late = [replace(e, t=e.t + 9_000 * MS) if not isinstance(e, Round) else e for e in race]
    events = [*chat(4), lane_event(1, "sd"), *late]
    feed = ReplayFeed(write("mixed", events), clock=clock)
    async with app_of(feed, clock, tmp_path).run_test(size=SIZE) as pilot:
        await pilot.pause()
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        app.tick()
        screen = app.stage
        assert isinstance(screen, ReplayScreen)
        await press(pilot, "space", "home", "R")
        assert "one lane" in plain(screen.lines["hints"].lines[0])
        await press(pilot, "end", "R")
        await pilot.pause()
        board = app.stage
        assert isinstance(board, RaceReplayScreen)
        board.draw_now()
        assert [s.turn.n_rounds for s in board.standings.standings] == [24, 24]
        await press(pilot, "escape")
        assert app.stage is screen
