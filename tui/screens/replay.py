"""A recording on the live panels: playing, stepping, seeking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import msgspec
from textual.binding import BindingType
from textual.geometry import Size

from specmon.core.engine.messages import Progress
from specmon.tui.feeds.feed import FeedItem, Rewound, Warned
from specmon.tui.feeds.replay import ReplayFeed
from specmon.tui.screens.arrangement import TALL, WIDE, Chrome, Places
from specmon.tui.screens.cockpit import (
    JUMP_KEYS,
    LAST_KEYS,
    SELECT_KEYS,
    VIEW_KEYS,
    ZOOM_KEYS,
    Cockpit,
)
from specmon.tui.screens.file_strip import FileStrip
from specmon.tui.screens.keys import key
from specmon.tui.screens.player import PLACE_KEYS, PLAY_KEYS, Player
from specmon.tui.screens.stage import Setup
from specmon.tui.view import ReplayStatus, View
from specmon.tui.widgets.glyphs import glyphs


class ReplayScreen(Player, Cockpit):
    """Plays `feed`. Jumps move the position in the file; `,` and `.` select among what is visible.

    `leaves`: a lane of a race is shown; Esc goes back to the race.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *PLAY_KEYS,
        *JUMP_KEYS,
        *PLACE_KEYS,
        *ZOOM_KEYS,
        *SELECT_KEYS,
        key("R", "race", "race", "this turn's lanes as a race", section="Replay"),
        key("y", "copy", "copy", "copy the round as JSON to the clipboard", section="Replay", hint=True),
        *VIEW_KEYS,
        *LAST_KEYS,
    ]

    def __init__(self, setup: Setup, feed: ReplayFeed, *, lane: int = 0, leaves: bool = False) -> None:
        self._tall = False
        self._leaves = leaves
        super().__init__(setup)
        self.lane = lane
        self.feed = feed
        self.playback = feed.playback
        self.strip = FileStrip(self.playback, glyphs(setup.ascii))

    def line_ids(self) -> tuple[str, ...]:
        return ("strip",)

    def places(self, size: Size) -> Places:
        self._tall = size.width >= WIDE and size.height >= TALL
        return super().places(size)

    def chrome(self) -> Chrome:
        if self._tall:
            return Chrome((("status", 1), ("why", 1), ("strip", 5)), prompt_rows=0)
        return Chrome((("status", 1), ("why", 1), ("strip", 3)), prompt_rows=0)

    def view(self) -> View:
        turn, turns, round_, rounds = self.playback.place()
        here = self.playback.here
        speed = self.playback.speed
        return replace(
            super().view(),
            mode="ALL" if self.playback.ended else "LIVE",
            replay=ReplayStatus(
                name=self.feed.path.name,
                paused=not self.playback.playing,
                t=here.t if here else 0,
                t_end=self.playback.duration_ns,
                speed=speed.value,
                real_time=speed.unit == "time",
                turn=turn,
                round=round_,
                rounds=rounds,
                left_out=self.feed.left_out,
                turns=turns,
            ),
        )

    def draw_lines(self, places: Places) -> None:
        super().draw_lines(places)
        self.draw_strip(places)

    def on_items(self, items: Sequence[FeedItem]) -> None:
        for item in items:
            if isinstance(item, Rewound):
                self.selected = None
            elif isinstance(item, Warned):
                self.say(item.text, "warning")
            elif isinstance(item, Progress):
                self.say(item.what)
        here = self.playback.here
        if here is not None and here.lane != self.lane and len(self.pump.ledger.lanes) == 1:
            self.lane = here.lane

    def at_end(self) -> bool:
        if not self.feed.loaded:
            return False
        if not self.playback.ended:
            self.action_live()
        return True

    def action_back(self) -> None:
        if self._leaves and self.zoomed is None and self.selected is None:
            self.dismiss(None)
        else:
            super().action_back()

    def action_race(self) -> None:
        from specmon.tui.screens.race_replay import RaceReplayScreen  # which opens lanes on this screen

        stops, here = self.playback.stops, self.playback.here
        lanes = [lane for lane, turn in stops.decoders if here is not None and turn == here.turn]
        if self._leaves or len(lanes) < 2:
            self.say("this turn has one lane" if len(lanes) < 2 else "Esc goes back to the race")
        else:
            self.app.push_screen(RaceReplayScreen(self.setup, self.feed, len(lanes), leaves=True))

    # --- moving ---------------------------------------------------------------------------------------------

    def moved(self) -> None:
        """Draw the new position at once, following it."""
        self.selected = self.turn = None
        self.on_items(self.pump.poll())
        self.draw_now()

    def action_live(self) -> None:
        self.playback.go(len(self.playback.stops) - 1)
        super().action_live()
        self.moved()

    def action_copy(self) -> None:
        here = self.playback.here
        rounds = self.rounds
        if here is None or not rounds:
            self.say("no round here")
            return
        round_ = rounds[-1 if self.pointed_at is None else self.pointed_at]
        self.app.copy_to_clipboard(msgspec.json.encode(round_).decode())
        self.say(f"round {round_.index} copied")
