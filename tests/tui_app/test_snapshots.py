"""A handful of whole screens at fixed times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from specmon.tui.app import SpecmonApp
from specmon.tui.feeds.replay import ReplayFeed

from .conftest import FakeClock, FakeEngine, bursts
from .test_monitor import decoding, press
from .test_monitor import settle as settle_monitor
from .test_race import LANES, REQUEST, racing
from .test_race_replay import app_of
from .test_race_replay import settle as settle_race
from .test_replay import paused_at

SIZES = [(160, 48), (80, 24)]
ALL_SIZES = [*SIZES, (100, 30), (240, 60)]
Compare = Callable[..., bool]


@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
def test_monitor_looks(
    snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine, size: tuple[int, int]
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await decoding(pilot, engine, rounds=40)
        await settle_monitor(pilot)

    assert snap_compare(live_app(), terminal_size=size, run_before=run)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_replay_looks(
    snap_compare: Compare, replay_app: Callable[..., SpecmonApp], size: tuple[int, int]
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await paused_at(pilot, "2/4")

    assert snap_compare(replay_app(), terminal_size=size, run_before=run)


@pytest.mark.parametrize("keys", ["?", "o"], ids=["help", "settings"])
def test_sheets_look(
    snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine, keys: str
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await decoding(pilot, engine)
        await press(pilot, keys)
        await pilot.pause()

    assert snap_compare(live_app(), terminal_size=(80, 24), run_before=run)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_race_looks(
    snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine, size: tuple[int, int]
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await racing(pilot, engine)

    assert snap_compare(live_app(REQUEST, race_lanes=LANES), terminal_size=size, run_before=run)


@pytest.fixture
def race_file(write: Callable[..., Path]) -> Path:
    return write("race", list(bursts()))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_recorded_race_looks(
    snap_compare: Compare, race_file: Path, clock: FakeClock, tmp_path: Path, size: tuple[int, int]
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await settle_race(pilot)
        await press(pilot, "space", "end")

    feed = ReplayFeed(race_file, clock=clock)
    assert snap_compare(app_of(feed, clock, tmp_path), terminal_size=size, run_before=run)


@pytest.mark.parametrize("theme", ["specmon-light", "paper", "high-contrast", "colour-blind", "ansi"])
def test_themes_look(
    snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine, theme: str
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await decoding(pilot, engine, rounds=40)
        await settle_monitor(pilot)

    assert snap_compare(live_app(theme=theme), terminal_size=(80, 24), run_before=run)


def test_ascii_looks(snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await decoding(pilot, engine, rounds=40)
        await settle_monitor(pilot)

    assert snap_compare(live_app(ascii=True), terminal_size=(160, 48), run_before=run)


def test_no_color_looks(
    snap_compare: Compare,
    live_app: Callable[..., SpecmonApp],
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def run(pilot: Pilot[None]) -> None:
        await decoding(pilot, engine, rounds=40)
        await press(pilot, "comma")
        await settle_monitor(pilot)

    assert snap_compare(live_app(), terminal_size=(160, 48), run_before=run)


def test_prompt_library_looks(
    snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await decoding(pilot, engine)
        await press(pilot, "P", "down")
        await pilot.pause()

    assert snap_compare(live_app(), terminal_size=(100, 30), run_before=run)


def test_first_hint_looks(
    snap_compare: Compare, live_app: Callable[..., SpecmonApp], engine: FakeEngine, tmp_path: Path
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await settle_monitor(pilot)

    assert snap_compare(live_app(state=tmp_path), terminal_size=(80, 24), run_before=run)
