"""Each panel of the monitor as it looks on every size of screen that the monitor is made for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.app import App, ComposeResult

from specmon.tui.screens.arrangement import Chrome, arrange
from specmon.tui.screens.cockpit import PANEL_CLASSES
from specmon.tui.view import View
from specmon.tui.widgets.panel import Panel

from .conftest import fed
from .streams import ssd_stream

SCREENS = [(80, 24), (100, 30), (160, 48), (240, 60)]


def panel_size(name: str, screen: tuple[int, int]) -> tuple[int, int]:
    """What the cockpit gives a panel; one that the smallest leaves out is zoomed there."""
    places = arrange(*screen, Chrome())
    region = places.get(name) or arrange(*screen, Chrome(), zoom=name)[name]
    return region.width, region.height


class OnePanel(App[None]):
    """A panel with a view, and nothing else."""

    def __init__(self, panel: Panel, view: View) -> None:
        super().__init__()
        self.panel, self.moment = panel, view

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.call_after_refresh(self.panel.show, self.moment)


@pytest.mark.parametrize("screen", SCREENS, ids=lambda size: "{}x{}".format(*size))
@pytest.mark.parametrize("name", sorted(PANEL_CLASSES))
def test_panel_looks(snap_compare: Callable[..., bool], name: str, screen: tuple[int, int]) -> None:
    view = View(ledger=fed(ssd_stream(120)), selected=110 if name != "timeline" else None)
    app = OnePanel(PANEL_CLASSES[name](), view)
    assert snap_compare(app, terminal_size=panel_size(name, screen))


def test_ghosts_look(snap_compare: Callable[..., bool]) -> None:
    """Rejected proposals beside the text."""
    view = View(ledger=fed(ssd_stream(120)), ghosts=True)
    assert snap_compare(OnePanel(PANEL_CLASSES["text"](), view), terminal_size=(72, 20))
