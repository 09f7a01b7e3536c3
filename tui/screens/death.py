"""Shown when the engine is gone: why, its last words, where the recording is, and what can be done."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from specmon.tui.feeds.feed import Died
from specmon.tui.screens.lines_view import LinesView
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.lines import Line

LOG_LINES = 8


class DeathScreen(ModalScreen[bool]):
    """Answers True to start the engine again; Esc goes back to what was decoded."""

    CSS = """
    DeathScreen { align: center middle; background: $background 60%; }
    DeathScreen Vertical {
        width: 100; max-width: 96%; height: auto; border: round $error; border-title-color: $error;
        background: $background; padding: 0 1;
    }
    DeathScreen.-ascii Vertical { border: ascii $error; }
    DeathScreen LinesView { height: auto; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("r,ctrl+r", "answer(True)", "restart"),
        ("escape", "answer(False)", "back"),
        ("q", "app.quit", "quit"),
    ]

    def __init__(self, setup: Setup, died: Died, log: str | None) -> None:
        super().__init__()
        self._died, self._log = died, log
        self.set_class(setup.ascii, "-ascii")
        self._lines_view = LinesView(setup.palette, ascii=setup.ascii)

    def compose(self) -> ComposeResult:
        box = Vertical(self._lines_view)
        box.border_title = "THE ENGINE IS GONE"
        yield box

    def on_mount(self) -> None:
        self._lines_view.put(death_lines(self._died, self._log))

    @property
    def shown(self) -> list[Line]:
        """What it says."""
        return self._lines_view.lines

    def action_answer(self, restart: bool) -> None:
        self.dismiss(restart)


def death_lines(died: Died, log: str | None) -> list[Line]:
    """The message, line by line."""
    lines: list[Line] = [[(safe_text(died.reason), "text")], []]
    if died.log_tail:
        lines.append(
            [("Its last lines", "title"), (f"  whole log: {safe_text(log)}" if log else "", "muted")]
        )
        lines += [[(f"  {safe_text(line)}", "muted")] for line in died.log_tail[-LOG_LINES:]]
        lines.append([])
    if died.recording:
        lines.append([("The recording up to then: ", "text"), (safe_text(died.recording), "accent")])
    else:
        lines.append([("What was decoded stays on screen.", "text")])
    lines.append([])
    lines.append(
        [
            ("r", "accent"),
            (" restart the engine   ", "text"),
            ("Esc", "accent"),
            (" look at what is here   ", "text"),
            ("q", "accent"),
            (" quit", "text"),
        ]
    )
    return lines
