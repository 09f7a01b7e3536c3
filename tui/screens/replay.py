"""A recording on the live panels: playing, stepping, seeking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec
from textual.binding import BindingType
from textual.geometry import Size

from specmon.core.engine.messages import Progress
from specmon.tui.feeds.feed import FeedItem, Rewound, Warned
from specmon.tui.feeds.replay import SEARCHED_ROUNDS, ReplayFeed
from specmon.tui.feeds.seek import go_to
from specmon.tui.screens.arrangement import TALL, WIDE, Chrome, Places
from specmon.tui.screens.ask import AskScreen
from specmon.tui.screens.cockpit import (
    JUMP_KEYS,
    LAST_KEYS,
    SELECT_KEYS,
    VIEW_KEYS,
    ZOOM_KEYS,
    Cockpit,
    is_full_rejection,
)
from specmon.tui.screens.file_strip import FileStrip
from specmon.tui.screens.keys import key
from specmon.tui.screens.stage import Setup
from specmon.tui.view import ReplayStatus, View
from specmon.tui.widgets.glyphs import glyphs

_STEP = "one round back and on"
_STEP_TURN = "to the start of this turn, then of the one before; to the next turn"
_SPEED = "slower and faster"
_LOOP = "start of a loop here, its end here, loop on or off"


class ReplayScreen(Cockpit):
    """Plays `feed`. Jumps move the position in the file; `,` and `.` select among what is visible."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("space", "play", "play", "play and pause", section="Replay", shown="Space", hint=True),
        key("[ left", "step(-1)", "round", _STEP, section="Replay", shown="[ ]", hint=True),
        key("] right", "step(1)", "round", _STEP, section="Replay", shown="[ ]", hint=True),
        key("{", "step_turn(-1)", "turn", _STEP_TURN, section="Replay", shown="{ }", hint=True),
        key("}", "step_turn(1)", "turn", _STEP_TURN, section="Replay", shown="{ }", hint=True),
        key("-", "speed(-1)", "speed", _SPEED, section="Replay", shown="- +", hint=True),
        key("+ =", "speed(1)", "speed", _SPEED, section="Replay", shown="- +", hint=True),
        key("u", "unit", "unit", "speed in rounds/s or in multiples of real time", section="Replay"),
        key("g", "go", "go", "go to a round (97, 2/97) or a time (1.5s)", section="Replay", hint=True),
        *JUMP_KEYS,
        key("A", "loop_start", "loop", _LOOP, section="Replay", shown="A B L", hint=True),
        key("B", "loop_end", "loop", _LOOP, section="Replay", shown="A B L", hint=True),
        key("L", "loop", "loop", _LOOP, section="Replay", shown="A B L", hint=True),
        key("m", "mark", "mark", "a mark here, for this viewing", section="Replay", hint=True),
        *ZOOM_KEYS,
        *SELECT_KEYS,
        key("y", "copy", "copy", "copy the round as JSON to the clipboard", section="Replay", hint=True),
        key("home", "start", "start", "to the start of the file", section="Replay", shown="Home"),
        *VIEW_KEYS,
        *LAST_KEYS,
    ]

    def __init__(self, setup: Setup, feed: ReplayFeed) -> None:
        self._tall = False
        super().__init__(setup)
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
        return Chrome((("status", 1), ("strip", 3)), prompt_rows=0)

    def view(self) -> View:
        _, turns, _, rounds = self.playback.place()
        here = self.playback.here
        speed = self.playback.speed
        return View(
            ledger=self.pump.ledger,
            lane=self.lane,
            turn=self.turn_index,
            selected=self.selected,
            mode="ALL" if self.playback.ended else "LIVE",
            ascii=self.setup.ascii,
            fates=self.fates,
            replay=ReplayStatus(
                name=self.feed.path.name,
                paused=not self.playback.playing,
                t=here.t if here else 0,
                t_end=self.playback.duration_ns,
                speed=speed.value,
                real_time=speed.unit == "time",
                rounds=rounds,
                turns=turns,
            ),
        )

    def draw_lines(self, places: Places) -> None:
        super().draw_lines(places)
        if "strip" in places:
            region = places["strip"]
            self.lines["strip"].put(self.strip.lines(region.width, region.height, tuple(self.pump.warnings)))

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

    # --- moving ---------------------------------------------------------------------------------------------

    def moved(self) -> None:
        """Draw the new position at once, following it."""
        self.selected = self.turn = None
        self.on_items(self.pump.poll())
        self.draw_now()

    def action_play(self) -> None:
        self.playback.toggle()
        self.moved()

    def action_step(self, by: int) -> None:
        self.playback.step(by)
        self.moved()

    def action_step_turn(self, by: Literal[-1, 1]) -> None:
        self.playback.step_turn(by)
        self.moved()

    def action_start(self) -> None:
        self.playback.go(0)
        self.moved()

    def action_live(self) -> None:
        self.playback.go(len(self.playback.stops) - 1)
        super().action_live()
        self.moved()

    def action_speed(self, by: int) -> None:
        self.playback.speed = self.playback.speed.changed(by)
        self.draw_now()

    def action_unit(self) -> None:
        self.playback.speed = self.playback.speed.other_unit()
        self.draw_now()

    def action_next_miss(self) -> None:
        self._found(self.playback.find_next_miss(), "no round of this recording missed")

    def action_next_rejection(self) -> None:
        found = self.feed.find_next(is_full_rejection)
        self._found(found, f"no draft of the next {SEARCHED_ROUNDS:,} rounds was rejected whole")

    def action_slowest(self) -> None:
        self._found(self.playback.find_slowest(), "no rounds here")

    def _found(self, found: bool, otherwise: str) -> None:
        if found:
            self.moved()
        else:
            self.say(otherwise)

    def action_loop_start(self) -> None:
        self.playback.mark_a = self.playback.at
        self.say("A here; B sets the loop's end")

    def action_loop_end(self) -> None:
        self.playback.mark_b = self.playback.at
        self.say("B here; L loops between A and B")

    def action_loop(self) -> None:
        if not self.playback.toggle_loop():
            self.say("a loop needs A before B")
        self.draw_now()

    def action_mark(self) -> None:
        here = self.playback.here
        if here is not None:
            self.playback.marks.append(self.playback.at)
            self.say("marked, for this viewing")

    def action_copy(self) -> None:
        here = self.playback.here
        rounds = self.rounds
        if here is None or not rounds:
            self.say("no round here")
            return
        round_ = rounds[-1 if self.selected is None else self.selected]
        self.app.copy_to_clipboard(msgspec.json.encode(round_).decode())
        self.say(f"round {round_.index} copied")

    def action_go(self) -> None:
        self.app.push_screen(AskScreen("round (97), turn/round (2/97) or time (1.5s, 0:01.5)"), self._go)

    def _go(self, answer: str | None) -> None:
        if not answer:
            return
        if go_to(self.playback, answer):
            self.moved()
        else:
            self.say(f"there is no {answer!r} in this recording", "warning")
