"""One line to type, at the foot of the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Input


class AskScreen(ModalScreen[str | None]):
    """Answers what was typed; None after Esc."""

    CSS = """
    AskScreen { align: left bottom; background: $background 0%; }
    AskScreen Input { height: 1; border: none; background: $surface; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "leave")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Input(placeholder=self._question)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self.dismiss(message.value.strip())
