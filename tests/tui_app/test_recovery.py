"""Recordings that killed runs left behind, offered at the start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specmon.core.session.reader import SessionReader
from specmon.core.session.recover import create_spool
from specmon.core.session.writer import SessionWriter
from specmon.tui.app import SpecmonApp
from specmon.tui.screens.monitor import MonitorScreen
from specmon.tui.widgets.lines import plain

from .conftest import HEADER, FakeEngine, lane_event, turn_events
from .test_monitor import press

LiveApp = Callable[..., SpecmonApp]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder whose owner has seen the first hint."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "hint-seen").touch()
    return folder


def leave(state: Path, content: bytes) -> None:
    """Leave a spool behind as a killed process does: its lock is free."""
    _, fd = create_spool(state)
    os.write(fd, content)
    os.close(fd)


@pytest.fixture
def recorded(tmp_path: Path) -> bytes:
    writer = SessionWriter(tmp_path / "x.session")
    for event in [HEADER, lane_event(), *turn_events(0, 5)]:
        writer.write(event)
    writer.flush()
    return writer.path.read_bytes()


async def test_start_offers_what_was_left_and_k_keeps_it(
    live_app: LiveApp, engine: FakeEngine, state: Path, recorded: bytes, tmp_path: Path
) -> None:
    leave(state, recorded)
    async with live_app(state=state).run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        app.tick()
        monitor = app.stage
        assert isinstance(monitor, MonitorScreen)
        welcome = [plain(row) for row in monitor.lines["welcome"].lines]
        assert any("A run that was cut short left" in row and "K keeps it" in row for row in welcome)
        await press(pilot, "K")
        (kept,) = (tmp_path / "recordings").iterdir()
        assert str(kept)[:30] in plain(monitor.lines["hints"].lines[0])
        with SessionReader.open(kept) as reader:
            assert len(list(reader.events())) == 10
        assert not list(state.glob("*.spool"))
        await press(pilot, "K")
        assert "no run left anything" in plain(monitor.lines["hints"].lines[0])


async def test_spool_that_holds_nothing_says_so_and_the_next_is_kept(
    live_app: LiveApp, state: Path, recorded: bytes, tmp_path: Path
) -> None:
    leave(state, recorded)
    leave(state, b"junk" * 30)
    async with live_app(state=state).run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await press(pilot, "K", "K")
        assert len(list((tmp_path / "recordings").iterdir())) == 1
        assert len(list(state.glob("*.spool"))) == 1


async def test_nothing_is_offered_where_nothing_was_left(live_app: LiveApp, state: Path) -> None:
    async with live_app(state=state).run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app = pilot.app
        assert isinstance(app, SpecmonApp)
        assert isinstance(app.stage, MonitorScreen)
        assert not any("cut short" in plain(row) for row in app.stage.lines["welcome"].lines)
