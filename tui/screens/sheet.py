"""A sheet of lines over the screen: Esc closes it, arrows scroll it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from specmon.tui.screens.lines_view import LinesView
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.lines import Line


class Sheet(ModalScreen[None]):
    """A title, lines, and a way out."""

    DEFAULT_CSS = """
    Sheet { align: center middle; background: $background 60%; }
    Sheet VerticalScroll {
        width: 100; max-width: 96%; height: auto; max-height: 92%;
        border: round $border; border-title-color: $foreground; background: $background; padding: 0 1;
    }
    Sheet.-ascii VerticalScroll { border: ascii $border; scrollbar-size: 0 0; }
    Sheet LinesView { height: auto; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss", "close")]

    def __init__(self, setup: Setup, title: str) -> None:
        super().__init__()
        self.set_class(setup.ascii, "-ascii")
        self._lines_view = LinesView(setup.palette, ascii=setup.ascii)
        self._title = title
        self.setup = setup

    def sheet_lines(self, width: int) -> list[Line]:
        """What the sheet says, in `width` cells."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        box = VerticalScroll(self._lines_view)
        box.border_title = self._title
        box.border_subtitle = "Esc closes"
        yield box

    def on_mount(self) -> None:
        self._lines_view.put(self.sheet_lines(min(94, int(self.app.size.width * 0.96) - 6)))
        self.query_one(VerticalScroll).focus()
