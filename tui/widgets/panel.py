"""What all panels share: they keep a frozen View, draw it as lines and repaint the lines that changed."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from specmon.themes import load_theme
from specmon.tui.view import View
from specmon.tui.widgets.lines import Line, changed_cells, in_ascii
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.strips import without_cycles


@lru_cache(maxsize=1)
def default_palette() -> Palette:
    """The palette of a panel nobody gave another."""
    return Palette(load_theme("specmon-dark"))


class Panel(Widget):
    """A widget that draws `draw(view, width, height)`; a panel's file defines that and little else."""

    DEFAULT_CSS = """
    Panel { height: 1fr; width: 1fr; }
    """

    def __init__(
        self, *, palette: Palette | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.view: View | None = None
        self._palette = palette or default_palette()
        self._lines: list[Line] = []

    @property
    def palette(self) -> Palette:
        """The colours in use; setting it repaints."""
        return self._palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._palette = palette
        self.refresh()

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        """Exactly `height` lines of `width` cells."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Show another moment."""
        self.view = view
        self.redraw()

    def redraw(self) -> None:
        """Draw again, after the view or the panel's own state (scrolling, zoom) changed."""
        width, height = self.size
        if self.view is None or not width or not height:
            return
        before, self._lines = self._lines, self.draw(self.view, width, height)
        if self.view.ascii:
            self._lines = [in_ascii(line) for line in self._lines]
        changed = [
            region for y, line in enumerate(self._lines) if (region := _changed(before, line, y, width))
        ]
        if changed:
            self.refresh(*changed)

    def on_resize(self, _: events.Resize) -> None:
        self._lines = []
        self.redraw()

    def render_lines(self, crop: Region) -> list[Strip]:
        return without_cycles(super().render_lines(crop))

    def render_line(self, y: int) -> Strip:
        """Textual asks for one line (y from the panel's top)."""
        width = self.size.width
        blank = self._palette.style("text")
        if y >= len(self._lines):
            return Strip.blank(width, blank)
        segments = [Segment(text, self._palette.style(role)) for text, role in self._lines[y]]
        return Strip(segments).adjust_cell_length(width, blank)


def _changed(before: list[Line], line: Line, y: int, width: int) -> Region | None:
    """The part of row `y` that is to be painted again; None if nothing changed."""
    if y >= len(before):
        return Region(0, y, width, 1)
    start, end = changed_cells(before[y], line)
    return Region(start, y, end - start, 1) if end > start else None
