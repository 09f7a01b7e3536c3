"""One lane of a running race as a full monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from specmon.tui.feeds.feed import FeedItem
from specmon.tui.screens.arrangement import Chrome
from specmon.tui.screens.cockpit import JUMP_KEYS, LAST_KEYS, SELECT_KEYS, VIEW_KEYS, ZOOM_KEYS, Cockpit
from specmon.tui.screens.keys import key
from specmon.tui.screens.stage import Setup

if TYPE_CHECKING:
    from specmon.tui.screens.race import RaceScreen


class LaneScreen(Cockpit):
    """Shows lane `lane` of `race`, which goes on below; Esc comes back to it."""

    CHROME: ClassVar[Chrome] = Chrome(prompt_rows=0)
    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "space",
            "freeze",
            "freeze",
            "freeze the view, never the race",
            section="Race",
            shown="Space",
            hint=True,
        ),
        key("x", "cancel", "stop", "stop the race", section="Race", hint=True),
        key(
            "escape", "back", "race", "back out, and back to the race", section="Race", shown="Esc", hint=True
        ),
        *ZOOM_KEYS,
        *JUMP_KEYS,
        *SELECT_KEYS,
        *VIEW_KEYS,
        *LAST_KEYS,
    ]

    def __init__(self, setup: Setup, race: RaceScreen, lane: int) -> None:
        super().__init__(setup)
        self.race = race
        self.lane = lane

    def on_items(self, items: Sequence[FeedItem]) -> None:
        """The race goes on, seen or not."""
        self.race.on_items(items)
        if self.race.said is not None:
            self._said = self.race._said

    def cancel(self) -> bool:
        return self.race.cancel()

    def action_cancel(self) -> None:
        self.say("stopping" if self.cancel() else "no race is running")

    def action_freeze(self) -> None:
        self.race.action_freeze()
        self.draw_now()

    def action_back(self) -> None:
        if self.zoomed is None and self.selected is None:
            self.dismiss(None)
            self.race.draw_now()
        else:
            super().action_back()
