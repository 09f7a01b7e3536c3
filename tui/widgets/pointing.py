"""Rounds under the mouse: what hovers is shown for as long as the mouse is there, a click picks it."""

from __future__ import annotations

from textual import events
from textual.message import Message

from specmon.tui.widgets.palette import Palette
from specmon.tui.widgets.panel import Panel


class RoundPicked(Message):
    """The user clicked a round: its position in the rounds of the turn on screen."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position


class RoundHovered(Message):
    """The mouse came to another round, by its position in the turn on screen; None: it is over none any more."""

    def __init__(self, position: int | None) -> None:
        super().__init__()
        self.position = position


class PointingPanel(Panel):
    """A panel that shows rounds at places of its own, and tells which the mouse is over."""

    def __init__(
        self, *, palette: Palette | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(palette=palette, id=id, classes=classes)
        self.has_mouse = False
        self._hovered: int | None = None

    def round_at(self, x: int, y: int) -> int | None:
        """Position of the round drawn at a cell of the panel, None where there is none."""
        raise NotImplementedError

    def on_click(self, event: events.Click) -> None:
        picked = self.round_at(event.x, event.y)
        if picked is not None:
            event.stop()
            self.post_message(RoundPicked(picked))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.has_mouse = True
        self._hover(self.round_at(event.x, event.y))

    def on_leave(self, _: events.Leave) -> None:
        self.has_mouse = False
        self._hover(None)

    def _hover(self, position: int | None) -> None:
        if position != self._hovered:
            self._hovered = position
            self.post_message(RoundHovered(position))
