"""Keys and the mouse on the monitor's panels."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from specmon.core.metrics.windows import WINDOW_SIZES
from specmon.tui.app import SpecmonApp
from specmon.tui.screens.formulas import FormulasScreen
from specmon.tui.screens.monitor import MonitorScreen
from specmon.tui.screens.sheet import Sheet
from specmon.tui.widgets.lines import plain
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.text_panel import TextPanel
from specmon.tui.widgets.timeline_panel import TimelinePanel

from .conftest import FakeEngine
from .test_monitor import SIZE, decoding, press, settle

LiveApp = Callable[..., SpecmonApp]


def shown(panel: Panel) -> str:
    """What a panel has drawn."""
    return "\n".join(plain(line) for line in panel._lines)


async def drawn(pilot: Pilot[None], engine: FakeEngine) -> MonitorScreen:
    """A monitor that decodes and has all its panels on screen."""
    await decoding(pilot, engine)
    return await settle(pilot)


async def test_t_goes_through_fates_rejected_proposals_and_neither(
    live_app: LiveApp, engine: FakeEngine
) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        text = monitor.panels["text"]
        assert "✗" not in shown(text)
        await press(pilot, "t")
        assert "✗ rejected" in shown(text)
        assert shown(text).count("✗") > 1
        await press(pilot, "t")
        assert "t fates" in shown(text)
        await press(pilot, "t")
        assert "✗" not in shown(text)
        assert "+ bonus" in shown(text)


async def test_upper_w_chooses_the_window(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        chart = monitor.panels["ms-per-token"]
        assert "window auto 16 tok" in shown(chart)
        for size in WINDOW_SIZES:
            await press(pilot, "W")
            assert f"window {size:,} tok" in shown(chart)
        await press(pilot, "W")
        assert "auto" in shown(chart)


async def test_click_on_the_text_selects_its_round(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        lines = shown(monitor.panels["text"]).splitlines()
        row = next(y for y, line in enumerate(lines) if "+" in line and "bonus" not in line)
        await pilot.click("#text", offset=(lines[row].index("+"), row))
        await settle(pilot)
        assert monitor.selected is not None
        assert "▲" in shown(monitor.panels["text"])


async def test_click_beside_the_text_selects_nothing(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        await pilot.click("#text", offset=(60, 1))
        assert monitor.selected is None


@pytest.mark.parametrize("name", ["enter", "3"])
async def test_enter_opens_the_round_in_detail(live_app: LiveApp, engine: FakeEngine, name: str) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        await press(pilot, "comma", name)
        assert monitor.zoomed == "round"
        await press(pilot, "escape")
        assert monitor.zoomed is None


async def test_timeline_keys_pan_zoom_and_fit(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        timeline = monitor.panels["timeline"]
        assert isinstance(timeline, TimelinePanel)
        following = shown(timeline)
        await press(pilot, "a")
        assert shown(timeline) != following
        assert "f fits and follows" in shown(timeline)
        await press(pilot, "d", "w")
        assert shown(timeline) != following
        await press(pilot, "s", "f")
        assert shown(timeline) == following


async def test_charts_say_live_or_frozen_and_end_returns(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        chart = monitor.panels["ms-per-token"]
        assert "· LIVE" in shown(chart)
        await press(pilot, "space")
        assert "· FROZEN" in shown(chart)
        await press(pilot, "end")
        await settle(pilot)
        assert "· LIVE" in shown(chart)


async def test_e_opens_the_formulas_behind_why(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        await press(pilot, "e")
        sheet = pilot.app.screen
        assert isinstance(sheet, FormulasScreen)
        assert isinstance(sheet, Sheet)
        lines = "\n".join(plain(line) for line in sheet.sheet_lines(100))
        assert "break-even τ = round ÷ AR step" in lines
        assert "AR step not measured" in lines


def text_places(monitor: MonitorScreen) -> dict[int, tuple[int, int]]:
    """A cell of the text panel for each round that shows there."""
    text = monitor.panels["text"]
    assert isinstance(text, TextPanel)
    cells = itertools.product(range(text.size.width), range(text.size.height))
    found = {text.round_at(x, y): (x, y) for x, y in cells}
    return {position: cell for position, cell in found.items() if position is not None}


async def hover(pilot: Pilot[None], panel: str, cell: tuple[int, int]) -> None:
    """Move the mouse to a cell of a panel and let the app tick, at the same moment."""
    await pilot.hover(panel, offset=cell)
    await pilot.pause(0)
    assert isinstance(pilot.app, SpecmonApp)
    pilot.app.tick()
    await pilot.pause(0)


async def test_round_under_the_mouse_is_shown_until_it_leaves(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        following = {name: shown(panel) for name, panel in monitor.panels.items()}
        await hover(pilot, "#text", text_places(monitor)[4])
        assert (monitor.hovered, monitor.selected) == (4, None)
        assert "ROUND 4" in shown(monitor.panels["round"])
        assert "under the mouse" in shown(monitor.panels["round"])
        assert "▲" in shown(monitor.panels["text"])
        await hover(pilot, "#timeline", (2, 2))
        assert monitor.hovered is None
        assert {name: shown(panel) for name, panel in monitor.panels.items()} == following


async def test_mouse_within_one_round_draws_nothing(
    live_app: LiveApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        x, y = text_places(monitor)[4]
        await hover(pilot, "#text", (x, y))
        draws: list[int] = []
        monkeypatch.setattr(monitor, "draw", lambda: draws.append(1))
        await hover(pilot, "#text", (x - 1, y))
        assert monitor.hovered == 4
        assert not draws
        await hover(pilot, "#text", text_places(monitor)[5])
        assert draws


async def test_key_steps_from_the_round_under_the_mouse(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        await hover(pilot, "#text", text_places(monitor)[4])
        await press(pilot, "comma")
        assert (monitor.hovered, monitor.selected) == (None, 3)
        await hover(pilot, "#text", text_places(monitor)[6])
        await press(pilot, "enter")
        assert (monitor.zoomed, monitor.selected) == ("round", 6)


async def test_mouse_over_scrolled_text_scrolls_nothing(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=(80, 24)) as pilot:
        monitor = await drawn(pilot, engine)
        await press(pilot, "pageup")
        text = monitor.panels["text"]
        assert isinstance(text, TextPanel)
        before = shown(text)
        assert not text.following
        position, cell = next(iter(text_places(monitor).items()))
        await hover(pilot, "#text", cell)
        assert monitor.hovered == position
        await hover(pilot, "#timeline", (2, 2))
        assert shown(text) == before


async def test_mouse_over_the_list_shows_its_round_and_leaves_the_rows_in_place(
    live_app: LiveApp, engine: FakeEngine
) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await drawn(pilot, engine)
        rounds = monitor.panels["rounds"]
        numbers = [line.split()[1] for line in shown(rounds).splitlines()[2:5]]
        await hover(pilot, "#rounds", (5, 4))
        assert monitor.hovered == len(monitor.rounds) - 3
        assert f"▶ {numbers[2]} ".replace(" ", "") in shown(rounds).splitlines()[4].replace(" ", "")
        assert f"ROUND {numbers[2]}" in shown(monitor.panels["round"])
        await pilot.click("#rounds", offset=(5, 3))
        assert monitor.selected == len(monitor.rounds) - 2
