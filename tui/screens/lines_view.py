"""A widget that shows given lines: hints, banners, the log, a file's strip."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from specmon.tui.widgets.lines import Line
from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.strips import without_cycles

_ASCII = str.maketrans(
    {
        "│": "|",
        "─": "-",
        "·": "-",
        "›": ">",
        "▶": ">",
        "▌": "|",
        "●": "*",
        "×": "x",
        "≥": ">=",
        "≤": "<=",
        "↑": "up",
        "↓": "down",
        "←": "left",
        "→": "right",
        "◆": "*",
        "◇": "o",
        "▸": "1",
        "✓": "y",
        "✗": "x",
        "–": "-",
        "τ": "tau",
        "α": "alpha",
        "÷": "/",
        "−": "-",
        "…": "...",
    }
)


def in_signs(text: str, ascii: bool) -> str:
    """The same text with the app's own signs in ASCII where that is asked for."""
    return text.translate(_ASCII) if ascii else text


class LinesView(Widget):
    """Shows lines of (text, role), with `ascii` their signs in ASCII; a line too long is cut."""

    def __init__(self, palette: Palette, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._palette = palette
        self._ascii = ascii
        self._lines: list[Line] = []

    def put(self, lines: list[Line]) -> None:
        """Show other lines."""
        lines = [[(in_signs(text, self._ascii), role) for text, role in line] for line in lines]
        if lines != self._lines:
            self._lines = lines
            self.refresh(layout=self.styles.auto_dimensions)

    @property
    def lines(self) -> list[Line]:
        """What is shown."""
        return self._lines

    def get_content_height(self, *_: object) -> int:
        return len(self._lines)

    def render_lines(self, crop: Region) -> list[Strip]:
        return without_cycles(super().render_lines(crop))

    def render_line(self, y: int) -> Strip:
        blank = self._palette.style("text")
        if y >= len(self._lines):
            return Strip.blank(self.size.width, blank)
        segments = [Segment(text, self._palette.style(role)) for text, role in self._lines[y]]
        return Strip(segments).adjust_cell_length(self.size.width, blank)
