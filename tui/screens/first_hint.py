"""What a newcomer is told once: any key closes it, and it never comes back."""

from __future__ import annotations

from pathlib import Path

from textual import events

from specmon.core import paths
from specmon.core.errors import SpecmonError
from specmon.tui.screens.sheet import Sheet
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.lines import Line

STEPS = (
    ("i", "type a prompt, Enter sends it; Esc leaves the prompt and keeps the text"),
    ("Space", "freeze the view to read it; decoding goes on"),
    (", .", "look at single rounds; Enter shows all about one"),
    ("1-8", "one panel alone, Esc back"),
    ("o  P", "what the next turn uses · a library of prompts"),
    ("R", "race AR, SD and SSD on your prompt"),
    ("?", "all keys"),
)


class FirstHint(Sheet):
    """The first steps, over the middle rows alone; `seen` is the file that says they were shown."""

    def __init__(self, setup: Setup, seen: Path) -> None:
        super().__init__(setup, "WELCOME TO SPECMON")
        self._seen = seen

    def sheet_lines(self, width: int) -> list[Line]:
        lines: list[Line] = [[("Outside the prompt, single keys act:", "text")], []]
        lines += [[(f"  {pad(keys, 8)}", "accent"), (text, "text")] for keys, text in STEPS]
        return [*lines, [], [("Any key closes this for good.", "muted")]]

    def on_mount(self) -> None:
        super().on_mount()
        self.styles.background = "transparent"  # the screen behind goes on telling how far loading is
        self.call_after_refresh(self._remember)

    def _remember(self) -> None:
        try:
            paths.private_dir(self._seen.parent)
            self._seen.touch(mode=0o600)
        except (OSError, SpecmonError):
            return

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss()
