"""Keys and the mouse on the monitor's panels."""

from __future__ import annotations

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
