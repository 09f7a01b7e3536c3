"""The prompt library: the benchmark prompts, to be put into the prompt and changed before they are sent."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.screen import ModalScreen

from specmon.core.bench.prompts import bench_prompts
from specmon.tui.screens.lines_view import LinesView, in_signs
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import clip, pad
from specmon.tui.widgets.lines import Line, fit, on_ground

KEYS = "↑↓ prompt · Enter takes it · Esc leaves"
NAME_CELLS, SET_CELLS, KIND_CELLS = 12, 11, 12


class PromptsScreen(ModalScreen[str | None]):
    """Answers the chosen prompt's text; None after Esc."""

    CSS = """
    PromptsScreen { align: center middle; background: $background 60%; }
    PromptsScreen VerticalScroll {
        width: 110; max-width: 96%; height: auto; max-height: 92%;
        border: round $border; border-title-color: $foreground; background: $background; padding: 0 1;
    }
    PromptsScreen.-ascii VerticalScroll { border: ascii $border; scrollbar-size: 0 0; }
    PromptsScreen LinesView { height: auto; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,P", "dismiss", "leave"),
        ("enter", "take", "take"),
        ("up,k", "row(-1)", "row"),
        ("down,j", "row(1)", "row"),
    ]

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._ascii = setup.ascii
        self._row = 0
        self.set_class(setup.ascii, "-ascii")
        self._lines_view = LinesView(setup.palette, ascii=setup.ascii)

    def compose(self) -> ComposeResult:
        box = VerticalScroll(self._lines_view, can_focus=False)
        box.border_title = "PROMPT LIBRARY"
        box.border_subtitle = in_signs(KEYS, self._ascii)
        yield box

    def on_mount(self) -> None:
        self._draw()

    def action_row(self, by: int) -> None:
        self._row = (self._row + by) % len(bench_prompts())
        self._draw()

    def action_take(self) -> None:
        self.dismiss(bench_prompts()[self._row].text)

    def _draw(self) -> None:
        cells = min(106, int(self.app.size.width * 0.96) - 4)
        self._lines_view.put(prompt_rows(self._row, cells))
        self._lines_view.scroll_to_region(Region(0, self._row, 1, 1), animate=False)


def prompt_rows(selected: int, cells: int) -> list[Line]:
    """A row for each prompt: name, set, kind and length, and how it begins."""
    rows = []
    for number, prompt in enumerate(bench_prompts()):
        line: Line = [
            ("▶ " if number == selected else "  ", "accent"),
            (pad(prompt.name, NAME_CELLS), "title"),
        ]
        line.append((pad(prompt.set, SET_CELLS), "muted"))
        line.append((pad(f"{prompt.kind} {prompt.length}", KIND_CELLS), "muted"))
        left = cells - 2 - NAME_CELLS - SET_CELLS - KIND_CELLS
        line = fit([*line, (clip(prompt.text, left), "text")], cells)
        rows.append(on_ground(line, "selected") if number == selected else line)
    return rows
