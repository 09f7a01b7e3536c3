"""The settings sheet: what the next turn uses."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from specmon.tui.screens.choices import Plan, Setting
from specmon.tui.screens.lines_view import LinesView, in_signs
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.lines import Line, fit, line_width

LABEL_CELLS = 16
WIDTH = 74
KEYS = "↑↓ setting · ←→ value · Enter applies · Esc leaves"


class SettingsScreen(ModalScreen[Plan | None]):
    """Up and Down choose a row, Left and Right a value; Enter applies at the next turn."""

    CSS = """
    SettingsScreen { align: center middle; background: $background 60%; }
    SettingsScreen Vertical {
        width: 78; height: auto; border: round $border; border-title-color: $foreground;
        background: $background; padding: 0 1;
    }
    SettingsScreen.-ascii Vertical { border: ascii $border; }
    SettingsScreen LinesView { height: auto; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,o", "dismiss", "leave"),
        ("enter", "apply", "apply"),
        ("up,k", "row(-1)", "row"),
        ("down,j", "row(1)", "row"),
        ("left,h", "value(-1)", "value"),
        ("right", "value(1)", "value"),
    ]

    def __init__(self, setup: Setup, plan: Plan, devices: tuple[str, ...]) -> None:
        super().__init__()
        self.plan = plan
        self._devices = devices
        self._ascii = setup.ascii
        self._row = 0
        self.set_class(setup.ascii, "-ascii")
        self._lines_view = LinesView(setup.palette, ascii=setup.ascii)

    def compose(self) -> ComposeResult:
        box = Vertical(self._lines_view)
        box.border_title = "NEXT TURN"
        box.border_subtitle = in_signs(KEYS, self._ascii)
        yield box

    def on_mount(self) -> None:
        self._draw()

    def action_row(self, by: int) -> None:
        self._row = (self._row + by) % len(self._settings)
        self._draw()

    def action_value(self, by: int) -> None:
        self.plan = self.plan.changed(self._settings[self._row].name, by, self._devices)
        self._draw()

    def action_apply(self) -> None:
        self.dismiss(self.plan)

    @property
    def _settings(self) -> list[Setting]:
        return self.plan.settings(self._devices)

    def _draw(self) -> None:
        self._lines_view.put([_row(s, i == self._row) for i, s in enumerate(self._settings)])


def _row(setting: Setting, selected: bool) -> Line:
    """One setting: its choices, the chosen one in brackets, impossible ones muted, and why."""
    line: Line = [("▶ " if selected else "  ", "accent"), (f"{setting.label:<{LABEL_CELLS}}", "title")]
    line += _choices(setting, WIDTH - line_width(line))
    reason = setting.idle or next((f"{c.value}: {c.reason}" for c in setting.choices if c.reason), "")
    if reason:
        line.append((f"  {reason}", "muted"))
    line = fit(line, WIDTH)
    return [(text, f"{role}@selected") for text, role in line] if selected else line


def _choices(setting: Setting, cells: int) -> Line:
    """The choices, from the first on if the chosen one is then in sight, else those around it."""
    shown: Line = []
    for i, choice in enumerate(setting.choices):
        possible = not choice.reason and not setting.idle
        if i == setting.chosen:
            shown.append((f"[{choice.value}]", "accent" if possible else "muted"))
        else:
            shown.append((f" {choice.value} ", "text" if possible else "muted"))
    first = 0
    while line_width(shown[first : setting.chosen + 1]) > cells - 1 and first < setting.chosen:
        first += 1
    return [("…", "muted"), *shown[first:]] if first else shown
