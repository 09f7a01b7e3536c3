"""What the app asks of the screen that shows the feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from textual.binding import Binding
from textual.screen import Screen

from specmon.core import paths
from specmon.tui.feeds.feed import FeedItem
from specmon.tui.feeds.pump import Pump
from specmon.tui.screens.keys import rebound, remapped
from specmon.tui.widgets.glyphs import glyphs
from specmon.tui.widgets.lines import Line, fit
from specmon.tui.widgets.palette import Palette

SAID_FOR_S = 5.0
NUMBERS_EVERY_S = 0.25
FAST_ROUNDS_PER_S, FAST_TEXT_EVERY_S = 100, 0.18


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all screens share: the pump, how things look, the clock (seconds), keys given to actions by name.

    `recordings` is the user's folder for what is kept.
    """

    pump: Pump
    palette: Palette
    clock: Callable[[], float]
    ascii: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    recordings: Path = field(default_factory=paths.recordings_dir)


def own_bindings(screen: type[Screen[None]]) -> list[Binding]:
    """The bindings a screen's class lists."""
    return [binding for binding in screen.BINDINGS if isinstance(binding, Binding)]


class Stage(Screen[None]):
    """A screen that draws the feed: about 16 times a second the app calls `on_items` and then `tick`."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup = setup
        self.pump = setup.pump
        self.keys = remapped(own_bindings(type(self)), setup.keys)
        self._bindings = rebound(self._bindings, self.keys)
        self._said: tuple[Line, float] | None = None
        self._numbers_at = self._text_at = float("-inf")
        self._rounds = 0  # at the last draw of numbers
        self._fast = False

    def on_items(self, items: Sequence[FeedItem]) -> None:
        """React to notices, and to turns that began or ended."""

    def tick(self, changed: bool) -> None:
        """Draw what `changed`: text at once, or five times a second when rounds are fast; figures four times a second."""
        now = self.setup.clock()
        if self._said is not None and now >= self._said[1]:
            self._said = None
            changed = True
        if now - self._numbers_at >= NUMBERS_EVERY_S:
            self._fast = self.pump.rounds - self._rounds > FAST_ROUNDS_PER_S * NUMBERS_EVERY_S
            self._numbers_at, self._rounds = now, self.pump.rounds
            self.draw()
        elif changed and self.text_due():
            self.draw_text()

    def text_due(self) -> bool:
        """Whether streaming text is to be drawn now; if so, it is taken as drawn."""
        now = self.setup.clock()
        if self._fast and now - self._text_at < FAST_TEXT_EVERY_S:
            return False
        self._text_at = now
        return True

    def draw_now(self) -> None:
        """Draw everything, as after a key."""
        self._numbers_at, self._text_at = self.setup.clock(), float("-inf")
        self.draw()

    def draw(self) -> None:
        """Show the present moment on everything visible."""
        raise NotImplementedError

    def draw_text(self) -> None:
        """Show the present moment on the streaming text alone."""

    def at_end(self) -> bool:
        """Whether all there is to show has come; a recording goes to its end."""
        return False

    def cancel(self) -> bool:
        """Cancel what runs; False if nothing does."""
        return False

    def say(self, text: str, role: Literal["text", "warning", "error"] = "text") -> None:
        """Show a sentence in the hint row for a few seconds."""
        self._said = ([(f" {text}", role)], self.setup.clock() + SAID_FOR_S)
        self.draw_now()

    @property
    def said(self) -> Line | None:
        """The sentence that still stands, as much of it as the hint row holds."""
        if self._said is None:
            return None
        return fit(self._said[0], self.app.size.width, ellipsis=glyphs(self.setup.ascii).ellipsis)
