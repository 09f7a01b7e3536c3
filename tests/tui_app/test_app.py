"""How the app ends, the palette, themes, and what it never imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot

from specmon.core.engine.messages import Idle, Request
from specmon.core.errors import UsageError
from specmon.themes import load_theme, theme_names
from specmon.tui.app import SpecmonApp, run_app
from specmon.tui.screens.keys import clashes, remapped
from specmon.tui.screens.monitor import MonitorScreen
from specmon.tui.screens.race import RaceScreen
from specmon.tui.screens.race_replay import RaceReplayScreen
from specmon.tui.screens.replay import ReplayScreen
from specmon.tui.screens.stage import Stage, own_bindings

from .conftest import FakeEngine, turn_events
from .test_monitor import decoding, press, row, settle

LiveApp = Callable[..., SpecmonApp]


def test_run_app_returns_the_code_and_closes_the_feed(
    live_app: LiveApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = live_app()
    app.feed.start()
    monkeypatch.setattr(App, "run", lambda self, **_: self.exit(return_code=130))
    assert run_app(app) == 130
    assert engine.closed


def test_run_app_closes_the_feed_when_the_app_breaks(
    live_app: LiveApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: App[None], **_: object) -> None:
        raise RuntimeError("broken")

    app = live_app()
    app.feed.start()
    monkeypatch.setattr(App, "run", broken)
    with pytest.raises(RuntimeError):
        run_app(app)
    assert engine.closed


async def test_exception_in_the_app_does_not_exit_with_0(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app()

    def explode() -> list[object]:
        raise RuntimeError("in a refresh")

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            app.pump.poll = explode  # type: ignore[method-assign, assignment]
            app.call_later(app.tick)
            await pilot.pause()

    with pytest.raises(RuntimeError, match="in a refresh"):
        await run()
    assert app.return_code == 1


async def test_palette_lists_the_keys_of_the_screen(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        titles = [command.title for command in pilot.app.get_system_commands(pilot.app.screen)]
        assert "freeze (Space)" in titles
        assert "quit (q)" in titles


@pytest.mark.parametrize("theme", theme_names())
async def test_every_theme_and_ascii_draw(live_app: LiveApp, engine: FakeEngine, theme: str) -> None:
    async with live_app(theme=theme, ascii=True).run_test(size=(80, 24)) as pilot:
        await decoding(pilot, engine)
        for keys in ((), ("space",), ("?",), ("escape", "o"), ("escape", "l")):
            await press(pilot, *keys)
            await pilot.pause()
            strips = pilot.app.screen._compositor.render_strips()
            drawn = {char for strip in strips for segment in strip for char in segment.text}
            assert drawn <= set(map(chr, range(32, 127))), keys


async def test_theme_key_changes_every_colour_and_says_why_not(
    live_app: LiveApp, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "zz.toml").write_text("dark = 3")
    async with live_app(theme="specmon-light", themes=tmp_path).run_test(size=(160, 48)) as pilot:
        monitor = await decoding(pilot, engine)
        light = load_theme("specmon-light").colors
        await press(pilot, "T")
        assert "zz.toml needs a text" in row(monitor, "hints")
        assert light["background"] in grounds(pilot) <= set(light.values())
        await press(pilot, "T")
        assert row(monitor, "hints").strip() == "theme ansi"
        await press(pilot, "T", "T", "T")
        await settle(pilot)
        paper = load_theme("paper").colors
        assert paper["background"] in grounds(pilot) <= set(paper.values())
        assert pilot.app.theme == "paper"


def grounds(pilot: Pilot[None]) -> set[str]:
    """The background colours on screen."""
    styles = (s.style for strip in pilot.app.screen._compositor.render_strips() for s in strip)
    return {style.bgcolor.get_truecolor().hex for style in styles if style and style.bgcolor}


def test_app_needs_no_torch() -> None:
    code = "import sys, specmon.tui.app; print(sorted({'torch', 'numpy', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_keys_given_by_name_replace_the_usual_ones(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app(keys={"freeze": "F F2", "select_back": "k", "quit": "Q"})
    async with app.run_test(size=(160, 48)) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "space", "q")
        assert app.is_running
        assert not app.pump.frozen
        await press(pilot, "F")
        assert app.pump.frozen
        await press(pilot, "f2", "k")
        assert not app.pump.frozen
        assert monitor.selected == 10
        assert "F F2 freeze" in row(monitor, "hints")
        await press(pilot, "Q")
        assert not app.is_running


def test_one_key_for_two_actions_is_an_error() -> None:
    bindings = own_bindings(MonitorScreen)
    with pytest.raises(UsageError, match="would do both"):
        remapped(bindings, {"freeze": "x"})
    assert remapped(bindings, {"freeze": "x", "cancel": "space"})


@pytest.mark.parametrize("screen", [MonitorScreen, RaceScreen, ReplayScreen, RaceReplayScreen])
def test_no_key_of_a_screen_does_two_things(screen: type[Stage]) -> None:
    assert [(name, a.id, b.id) for name, a, b in clashes(own_bindings(screen))] == []


def test_action_names_tell_directions_apart() -> None:
    names = {binding.id for binding in own_bindings(MonitorScreen)}
    assert {"select_back", "select_on", "zoom_text", "quit", "freeze"} <= names
    assert all(name is not None and name.isidentifier() for name in names)


async def test_once_leaves_with_the_last_screen(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app(Request(messages=(("user", "hello"),)), once=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        engine.ready()
        await settle(pilot)
        engine.give(*turn_events(0, 12), Idle(of="Generate"))
        await settle(pilot)
        for _ in range(500):  # it leaves once the last screen is painted
            if app.return_code is not None:
                break
            await pilot.pause(0.01)
    assert app.return_code == 0
    assert len(app.frame.splitlines()) == 24
    assert "12 rounds" in app.frame
    assert "def merge(a, b):" in app.frame
