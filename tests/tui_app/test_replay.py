"""The replay screen: stepping, seeking and playing a recording, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from specmon.core.engine.messages import Progress
from specmon.core.errors import SpecmonError
from specmon.core.events import AnyEvent, Header, TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.core.session.dump import dump_lines
from specmon.core.session.reader import SessionReader
from specmon.core.session.writer import SessionWriter
from specmon.tui.app import SpecmonApp
from specmon.tui.feeds.feed import Rewound, Warned
from specmon.tui.feeds.pump import Pump
from specmon.tui.feeds.replay import ReplayFeed
from specmon.tui.feeds.seek import go_to
from specmon.tui.screens.replay import ReplayScreen
from specmon.tui.widgets.lines import plain
from specmon.tui.widgets.numbers import clock
from specmon.tui.widgets.status_line import render_status

from .conftest import HEADER, MS, FakeClock, lane_event, turn_events
from .test_monitor import press

ReplayApp = Callable[..., SpecmonApp]
SIZE = (160, 48)
COMPACT = (80, 24)


async def settle(pilot: Pilot[None], seconds: float = 0.0) -> ReplayScreen:
    """Move the app's clock and drain its feed once."""
    app = pilot.app
    assert isinstance(app, SpecmonApp)
    assert isinstance(app.setup.clock, FakeClock)
    await pilot.pause(0)
    app.setup.clock.advance(seconds)
    app.tick()
    await pilot.pause(0)
    assert isinstance(app.stage, ReplayScreen)
    return app.stage


async def paused_at(pilot: Pilot[None], place: str) -> ReplayScreen:
    """Open, pause and go to a place."""
    await settle(pilot)
    screen = await settle(pilot)
    await press(pilot, "space", "g", *place, "enter")
    await pilot.pause()
    return screen


def shown(screen: ReplayScreen) -> tuple[int, int]:
    """The turn on screen (0 for the first) and how many of its rounds are visible."""
    return screen.turn_index, len(screen.rounds)


async def test_replay_plays_at_once_at_five_rounds_a_second(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        screen = await settle(pilot, 0.01)
        assert shown(screen) == (0, 0)
        screen = await settle(pilot, 1.0)
        assert shown(screen) == (0, 5)


async def test_space_pauses_and_plays(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "4")
        await settle(pilot, 10.0)
        assert shown(screen) == (0, 4)
        await press(pilot, "space")
        await settle(pilot, 0.41)
        assert shown(screen) == (0, 6)


async def test_brackets_step_rounds_both_ways(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "4")
        await press(pilot, "]", "]")
        assert shown(screen) == (0, 6)
        await press(pilot, "[", "left", "[")
        assert shown(screen) == (0, 3)


async def test_stepping_back_shows_what_a_fresh_ledger_shows(
    replay_app: ReplayApp, two_turns: list[AnyEvent]
) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "2/5")
        await press(pilot, "{", "{", "]", "]", "]")
        fresh = Ledger()
        for event in two_turns[:7]:  # header, lane, turn, prefill, three rounds
            fresh.feed(event)
        assert shown(screen) == (0, 3)
        assert screen.turn_metrics is not None
        assert screen.turn_metrics.text == fresh.lanes[0].turns[0].text
        assert screen.turn_metrics.tokens_per_s == fresh.lanes[0].turns[0].tokens_per_s


async def test_braces_step_turns(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "4")
        await press(pilot, "}")
        assert shown(screen) == (1, 0)
        await press(pilot, "{")
        assert shown(screen) == (0, 0)


async def test_end_of_the_file_shows_the_turn_end(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "1")
        await press(pilot, "end")
        await settle(pilot)
        assert shown(screen) == (1, 8)
        assert screen.turn_metrics is not None
        assert isinstance(screen.turn_metrics.end, TurnEnd)
        await press(pilot, "home")
        assert shown(screen) == (0, 0)


async def test_jumps_move_the_position(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "1")
        await press(pilot, "n")
        assert shown(screen) == (0, 3)
        await press(pilot, "n")
        assert shown(screen) == (0, 11)
        await press(pilot, "n")
        assert shown(screen) == (1, 3)
        await press(pilot, "S")
        assert shown(screen) == (1, 4)
        await press(pilot, "0")
        assert shown(screen) == (0, 3)


async def test_speed_keys_and_unit(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "1")
        await press(pilot, "+", "+")
        assert screen.playback.speed.label == "20 rounds/s"
        await press(pilot, "-")
        assert screen.playback.speed.label == "10 rounds/s"
        await press(pilot, "u", "-")
        assert screen.playback.speed.label == "0.5× real time"


async def test_a_b_loop(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "2")
        await press(pilot, "A", "]", "]", "B", "L", "space")
        assert shown(screen) == (0, 4)
        await settle(pilot, 0.21)
        assert shown(screen) == (0, 2)


async def test_unknown_place_moves_nowhere_and_says_so(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "4")
        await press(pilot, "g", *"99", "enter")
        await settle(pilot, 0.3)
        assert shown(screen) == (0, 4)
        assert "'99'" in plain(screen.lines["hints"].lines[0])


async def test_whole_file_strip_marks_here_turns_and_misses(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "2/1")
        rows = [plain(line) for line in screen.lines["strip"].lines]
        assert rows[2].split() == ["misses", "···◇·······◇····◇·····"]
        assert rows[3] == " turns    1 SSD K4 ────⌁▲ SSD K4"
        assert rows[1].count(" ") >= 2  # no round in a prefill's column


async def test_strip_and_status_give_one_time(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=COMPACT) as pilot:
        screen = await paused_at(pilot, "2/1")
        view = screen.view()
        assert view.replay is not None
        off = replace(view.replay, t=view.replay.t // MS * MS + MS * 7 // 10)
        status = plain(render_status(replace(view, replay=off), 200, 1)[0])
        assert clock(off.t) in status
        assert f"{clock(view.replay.t)}/{clock(view.replay.t_end)}" in plain(screen.lines["strip"].lines[0])


async def test_every_key_is_harmless(replay_app: ReplayApp) -> None:
    names = [name for b in ReplayScreen.BINDINGS if isinstance(b, Binding) for name in b.key.split(",")]
    async with replay_app().run_test(size=COMPACT) as pilot:
        await settle(pilot)
        for name in names:
            if name != "q":
                await press(pilot, name, "escape", "escape")
        await settle(pilot, 1.0)
        assert pilot.app.is_running


async def test_compact_replay_keeps_why_beside_the_strip(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=COMPACT) as pilot:
        screen = await paused_at(pilot, "2")
        assert set(screen.deck.places) >= {"status", "why", "strip", "text", "hints"}


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """600 rounds in frames of 100 events, not closed."""
    path = tmp_path / "long.session"
    writer = SessionWriter(path, clock=lambda: 0)
    for event in [HEADER, lane_event(), *turn_events(0, 200), *turn_events(1, 400, start=5_000 * MS)]:
        writer.write(event)
    writer.flush()
    return path


class SlowClock(FakeClock):
    """Passes `seconds` each time one looks."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def test_feed_reads_a_long_file_in_slices(long_file: Path) -> None:
    feed = ReplayFeed(long_file, clock=SlowClock(0.02))
    feed.start()
    polls = 0
    while not feed.loaded:
        feed.poll()
        polls += 1
    assert polls == 3  # of two frames each, after the one read when it was opened


def test_seek_far_into_a_long_turn_reads_a_stretch_and_says_what_it_left_out(
    long_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmon.tui.feeds.replay.LEAD_ROUNDS", 50)
    pump = Pump(ReplayFeed(long_file, clock=FakeClock()))
    feed = pump.feed
    assert isinstance(feed, ReplayFeed)
    feed.start()
    pump.poll()
    assert go_to(feed.playback, "2/30")  # turn 1 is too far back to be read
    pump.poll()
    first, second = pump.ledger.lanes[0].turns
    assert (first.n_rounds, second.n_rounds, feed.left_out) == (0, 30, 0)
    assert second.n_tokens == 1 + sum(len(r.emitted) for r in second.rounds)
    assert go_to(feed.playback, "2/300")
    pump.poll()
    turn = pump.ledger.lanes[0].turns[1]
    assert [r.index for r in turn.rounds] == list(range(250, 300))
    assert feed.left_out == 250
    feed.playback.step(1)
    pump.poll()
    assert [r.index for r in turn.rounds][-1] == 300
    assert go_to(feed.playback, "1/10")
    pump.poll()
    assert pump.ledger.lanes[0].turns[0].n_rounds == 10
    assert feed.left_out == 0


def test_feed_starts_over_when_it_moves_back(replay_app: ReplayApp) -> None:
    feed = replay_app().feed
    assert isinstance(feed, ReplayFeed)
    feed.start()
    feed.poll()
    feed.playback.go(6)
    forward = feed.poll()
    assert not any(isinstance(item, Rewound) for item in forward)
    feed.playback.go(2)
    back = feed.poll()
    assert isinstance(back[0], Rewound)
    assert isinstance(back[1], Header)
    assert feed.poll() == []


def test_torn_file_warns_and_plays(replay_app: ReplayApp, clock: FakeClock, tmp_path: Path) -> None:
    whole = replay_app().feed
    assert isinstance(whole, ReplayFeed)
    torn = tmp_path / "torn.session"
    with SessionReader.open(whole.path) as reader:
        end_mark = reader.frames[-1].end
    torn.write_bytes(whole.path.read_bytes()[: end_mark + 20])
    feed = ReplayFeed(torn, clock=clock)
    feed.start()
    items = [*feed.poll(), *feed.poll()]
    assert any(isinstance(item, Warned) for item in items)
    assert feed.loaded


@pytest.mark.parametrize("content", [b"", b"not a session"])
def test_file_that_is_no_session_is_refused(tmp_path: Path, clock: FakeClock, content: bytes) -> None:
    path = tmp_path / "x.session"
    path.write_bytes(content)
    with pytest.raises(SpecmonError):
        ReplayFeed(path, clock=clock).start()


async def test_refused_file_ends_the_app_with_its_code(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "x.session"
    path.write_bytes(b"")
    app = SpecmonApp(ReplayFeed(path, clock=clock), refresh_hz=0, clock=clock)
    async with app.run_test(size=COMPACT) as pilot:
        await pilot.pause()
    assert app.return_code == 2


def test_keys_typed_before_the_file_is_open_are_harmless(replay_app: ReplayApp) -> None:
    feed = replay_app().feed
    assert isinstance(feed, ReplayFeed)
    assert feed.poll() == []
    assert not feed.loaded


def follow_growing(path: Path, events: list[AnyEvent], clock: FakeClock) -> tuple[SessionWriter, ReplayFeed]:
    """A recording of `events` that is not closed, and a feed that follows it and has read them."""
    writer = SessionWriter(path)
    for event in events:
        writer.write(event)
    writer.flush()
    feed = ReplayFeed(path, follow=True, clock=clock)
    feed.start()
    feed.poll()
    return writer, feed


def test_followed_file_shows_its_newest_round(
    two_turns: list[AnyEvent], clock: FakeClock, tmp_path: Path
) -> None:
    writer, feed = follow_growing(tmp_path / "growing.session", two_turns[:8], clock)
    assert feed.playback.visible == 8
    for event in two_turns[8:10]:
        writer.write(event)
    writer.flush()
    feed.poll()
    assert feed.playback.visible == 10
    feed.playback.step(-1)
    feed.poll()
    assert feed.playback.visible == 9
    writer.close()


def test_followed_file_that_was_cut_keeps_what_was_read_and_says_so(
    two_turns: list[AnyEvent], clock: FakeClock, tmp_path: Path
) -> None:
    path = tmp_path / "growing.session"
    writer, feed = follow_growing(path, two_turns[:8], clock)
    os.truncate(path, 0)
    assert feed.poll() == [Warned("growing.session was cut: showing what was read.")]
    assert feed.loaded
    assert feed.playback.visible == 8
    assert feed.poll() == []
    writer.close()


def test_reading_says_how_far_it_is(long_file: Path) -> None:
    feed = ReplayFeed(long_file, clock=SlowClock(1.0))
    feed.start()
    assert Progress(what="reading long.session: 200 of 608 events") in feed.poll()


async def test_filter_lists_only_the_rounds_that_meet_it(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "12")
        await press(pilot, "/", *"a<1,ms>3", "enter")
        await pilot.pause()
        panel = screen.panels["rounds"]
        rows = [plain(row) for row in panel.draw(screen.view(), 88, 14)]
        assert "only a<1, ms>3" in rows[0]
        assert [row.split()[1] for row in rows[2:-2] if row.strip("│ ")] == ["10", "2"]
        await press(pilot, ",")
        assert screen.selected == 10
        await press(pilot, ",")
        assert screen.selected == 2
        await press(pilot, ",")
        assert screen.selected == 2
        await press(pilot, "/", *"a<x", "enter")
        await pilot.pause()
        assert "'a<x' is no condition" in plain(screen.lines["hints"].lines[0])
        await press(pilot, "/", "enter")
        await pilot.pause()
        assert screen.filter is None


async def test_export_saves_the_loop_as_json_lines(
    replay_app: ReplayApp, two_turns: list[AnyEvent], tmp_path: Path
) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "2")
        await press(pilot, "E")
        turn = tmp_path / "recordings" / "two.jsonl"
        assert turn.read_text().splitlines() == list(dump_lines(two_turns[2:6]))
        await press(pilot, "A", "]", "]", "B", "E")
        loop = tmp_path / "recordings" / "two-2.jsonl"
        assert loop.read_text().splitlines() == list(dump_lines(two_turns[5:8]))
        assert str(loop) in plain(screen.lines["hints"].lines[0])
        assert loop.stat().st_mode & 0o777 == 0o600


async def test_copy_takes_the_selected_round_else_the_newest(replay_app: ReplayApp) -> None:
    async with replay_app().run_test(size=SIZE) as pilot:
        screen = await paused_at(pilot, "4")
        copied: list[str] = []
        pilot.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
        await press(pilot, "y", ",", "y")
        assert [json.loads(text)["index"] for text in copied] == [3, 2]
        assert "round 2 copied" in plain(screen.lines["hints"].lines[0])
