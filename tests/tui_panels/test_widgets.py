"""The widgets around the renderers, inside a small app."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.geometry import Region

from specmon.themes import load_theme
from specmon.tui.view import View
from specmon.tui.widgets.acceptance_panel import AcceptancePanel
from specmon.tui.widgets.bandwidth_panel import BandwidthPanel
from specmon.tui.widgets.lines import Line
from specmon.tui.widgets.ms_per_token_panel import MsPerTokenPanel
from specmon.tui.widgets.palette import Palette, textual_theme
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.race_chart_panel import RaceChartPanel
from specmon.tui.widgets.race_lane_panel import RaceLanePanel
from specmon.tui.widgets.round_panel import RoundPanel
from specmon.tui.widgets.rounds_panel import RoundsPanel
from specmon.tui.widgets.shares_panel import SharesPanel
from specmon.tui.widgets.standings_panel import StandingsPanel
from specmon.tui.widgets.status_line import StatusLine
from specmon.tui.widgets.text_panel import TextPanel
from specmon.tui.widgets.timeline_panel import TimelinePanel
from specmon.tui.widgets.why_line import WhyLine

from .conftest import fed
from .streams import race_stream, ssd_stream


class Host(App[None]):
    """Holds the given panels, one below the other."""

    def __init__(self, *panels: Panel) -> None:
        super().__init__()
        self.panels = panels

    def compose(self) -> ComposeResult:
        yield from self.panels

    def on_mount(self) -> None:
        theme = textual_theme(load_theme("specmon-dark"))
        self.register_theme(theme)
        self.theme = theme.name


def screen_text(panel: Panel) -> str:
    return "\n".join(panel.render_line(y).text for y in range(panel.size.height))


class Counted(Panel):
    """A panel of lines the test sets; keeps the regions it asked to repaint."""

    def __init__(self) -> None:
        super().__init__()
        self.next: list[str] = []
        self.asked: list[Region] = []

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return [[(text.ljust(width), "text")] for text in self.next]

    def refresh(self, *regions: Region, **options: bool) -> Counted:  # type: ignore[override]
        if hasattr(self, "asked"):
            self.asked += regions
        return super().refresh(*regions, **options)


async def test_panel_repaints_only_lines_that_changed() -> None:
    panel = Counted()
    async with Host(panel).run_test(size=(20, 4)):
        panel.next = ["a", "b", "c", "d"]
        panel.show(View(ledger=fed([])))
        panel.asked.clear()
        panel.next = ["a", "B", "c", "d"]
        panel.show(View(ledger=fed([])))
        assert panel.asked == [Region(0, 1, 20, 1)]
        panel.asked.clear()
        panel.show(View(ledger=fed([])))
        assert panel.asked == []


async def test_panel_before_its_first_view_is_blank() -> None:
    panel = RoundsPanel()
    async with Host(panel).run_test(size=(40, 6)):
        assert screen_text(panel).strip() == ""


async def test_panel_draws_itself_again_at_another_size() -> None:
    panel = RoundsPanel()
    async with Host(panel).run_test(size=(88, 12)) as pilot:
        panel.show(View(ledger=fed(ssd_stream(20))))
        assert "ovl" in screen_text(panel)
        await pilot.resize_terminal(50, 12)
        await pilot.pause()
        assert "ovl" not in screen_text(panel)
        assert "a/K" in screen_text(panel)


async def test_panel_takes_another_palette() -> None:
    panel = AcceptancePanel()
    async with Host(panel).run_test(size=(60, 12)):
        panel.show(View(ledger=fed(ssd_stream(20))))
        light = Palette(load_theme("specmon-light"))
        panel.palette = light
        styles = [segment.style for segment in panel.render_line(1)]
        assert light.style("title") in styles


async def test_every_panel_mounts_and_shows_a_view() -> None:
    panels: list[Panel] = [
        StatusLine(),
        WhyLine(),
        TextPanel(),
        RoundsPanel(),
        RoundPanel(),
        SharesPanel(),
        TimelinePanel(),
        BandwidthPanel(),
        MsPerTokenPanel(),
        AcceptancePanel(),
        StandingsPanel(),
        RaceLanePanel(1),
        RaceChartPanel(),
    ]
    async with Host(*panels).run_test(size=(160, 120)):
        view = View(ledger=fed(race_stream(30)))
        for panel in panels:
            panel.show(view)
            assert screen_text(panel).strip(), panel


async def test_text_panel_scrolls_and_follows_again() -> None:
    panel = TextPanel()
    async with Host(panel).run_test(size=(50, 12)):
        panel.show(View(ledger=fed(ssd_stream(80))))
        newest = screen_text(panel)
        panel.scroll_page(-1)
        assert not panel.following
        assert screen_text(panel) != newest
        panel.scroll_rows(100)
        assert panel.following
        assert screen_text(panel) == newest
        panel.scroll_page(-1)
        panel.follow()
        assert screen_text(panel) == newest


async def test_timeline_pans_zooms_and_fits() -> None:
    panel = TimelinePanel()
    async with Host(panel).run_test(size=(140, 8)):
        panel.show(View(ledger=fed(ssd_stream(80))))
        fitted = screen_text(panel)
        panel.pan(-1)
        panned = screen_text(panel)
        assert panned != fitted
        panel.pan(1)
        panel.zoom(1)
        assert screen_text(panel) not in (fitted, panned)
        panel.fit()
        assert screen_text(panel) == fitted


async def test_timeline_ignores_keys_before_there_is_a_round() -> None:
    panel = TimelinePanel()
    async with Host(panel).run_test(size=(140, 8)):
        panel.pan(1)
        panel.show(View(ledger=fed([])))
        panel.zoom(1)
        panel.fit()
        assert "no round yet" in screen_text(panel)
