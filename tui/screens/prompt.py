"""The prompt: a mode of its own, entered and left with its text kept."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widgets import TextArea

from specmon.tui.screens.history import History
from specmon.tui.screens.keys import key

MAX_ROWS = 5

#: the keys that act while the prompt is entered, for hints and help
PROMPT_KEYS: list[Binding] = [
    key("enter", "send", "send", "send the prompt", section="Prompt", shown="Enter", hint=True),
    key("ctrl+j", "break_line", "new line", "begin a new line", section="Prompt", hint=True),
    key("up down", "recall", "earlier", "earlier prompts", section="Prompt", shown="↑ ↓", hint=True),
    key(
        "escape",
        "leave",
        "leave",
        "leave the prompt and keep its text",
        section="Prompt",
        shown="Esc",
        hint=True,
    ),
    key("ctrl+c", "interrupt", "cancel", "cancel; twice quits", section="Prompt", hint=True),
]


class Prompt(TextArea):
    """Where the user types: Enter sends, ctrl+j breaks the line, Esc leaves, Up and Down recall."""

    class Sent(Message):
        """The user pressed Enter on a prompt that is not blank."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The user left the prompt."""

    def __init__(self, history: History, *, id: str | None = None) -> None:
        super().__init__(
            id=id, soft_wrap=True, show_line_numbers=False, compact=True, highlight_cursor_line=False
        )
        self.sent = history

    @property
    def rows(self) -> int:
        """Rows the text wants now: one outside the prompt mode, at most MAX_ROWS in it."""
        return min(max(self.wrapped_document.height, 1), MAX_ROWS) if self.has_focus else 1

    async def _on_key(self, event: events.Key) -> None:
        handled = self._key(event.key)
        if handled:
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _key(self, key: str) -> bool:
        match key:
            case "enter":
                if self.text.strip():
                    self.post_message(self.Sent(self.text))
            case "ctrl+j":
                self.insert("\n")
            case "escape":
                self.post_message(self.Left())
            case "up" if self.cursor_location[0] == 0:
                self._recall(self.sent.older(self.text))
            case "down" if self.cursor_location[0] == self.document.line_count - 1:
                self._recall(self.sent.newer())
            case _:
                return False
        return True

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self.text = text
            self.move_cursor(self.document.end)
