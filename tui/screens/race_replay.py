"""A recorded race, or recordings made apart as one, on the race's own panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from specmon.core.engine.messages import Progress
from specmon.core.metrics.race import Unlike
from specmon.tui.feeds.feed import FeedItem, Warned
from specmon.tui.feeds.replay import ReplayFeed
from specmon.tui.screens.arrangement import Places
from specmon.tui.screens.cockpit import JUMP_KEYS
from specmon.tui.screens.file_strip import TALL_ROWS, FileStrip
from specmon.tui.screens.keys import key
from specmon.tui.screens.player import PLACE_KEYS, PLAY_KEYS, Player
from specmon.tui.screens.race_board import END_KEYS, LOOK_KEYS, RaceBoard
from specmon.tui.screens.replay import ReplayScreen
from specmon.tui.screens.stage import Setup
from specmon.tui.view import View
from specmon.tui.widgets.cells import clip, safe_text
from specmon.tui.widgets.glyphs import glyphs
from specmon.tui.widgets.lines import Line
from specmon.tui.widgets.numbers import clock


class RaceReplayScreen(Player, RaceBoard):
    """Plays `feed` as a race; `leaves`: Esc goes back to the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *PLAY_KEYS,
        *LOOK_KEYS,
        *JUMP_KEYS,
        *PLACE_KEYS,
        key("end", "live", "end", "to the end of the file", section="Replay", shown="End"),
        key("escape", "leave", "back", "back out", section="Replay", shown="Esc"),
        *END_KEYS,
    ]

    def __init__(self, setup: Setup, feed: ReplayFeed, lanes: int, *, leaves: bool = False) -> None:
        self.feed = feed
        super().__init__(setup, lanes, strip_rows=TALL_ROWS)
        self.strip = FileStrip(feed.playback, glyphs(setup.ascii))
        self._leaves = leaves

    @property
    def state(self) -> str:
        turn, turns, _, _ = self.feed.playback.place()
        place = f" turn {turn}/{turns}" if turns > 1 else ""
        return f"REPLAY RACE {'▌▌' if not self.feed.playback.playing else '▶'}{place}"

    @property
    def file(self) -> str | None:
        return clip(safe_text(self.feed.path.name, self.setup.ascii), 48)

    @property
    def side_by_side(self) -> bool:
        return len(self.feed.paths) > 1

    @property
    def unlike(self) -> Unlike:
        return self.feed.unlike

    @property
    def unpaired(self) -> str:
        return self.feed.unpaired

    def title_right(self, narrow: bool) -> Line:
        playback = self.feed.playback
        here = playback.here
        return [
            (
                f"{clock(here.t if here else 0)}/{clock(playback.duration_ns)} · {playback.speed.label} ",
                "muted",
            )
        ]

    def view(self) -> View:
        return View(
            ledger=self.pump.ledger,
            mode="ALL" if self.feed.playback.ended else "LIVE",
            ascii=self.setup.ascii,
            race=self.standings,
            cut_lanes=self.feed.cut_here,
        )

    def draw_lines(self, places: Places) -> None:
        super().draw_lines(places)
        self.draw_strip(places)

    def on_items(self, items: Sequence[FeedItem]) -> None:
        for item in items:
            if isinstance(item, Warned):
                self.say(item.text, "warning")
            elif isinstance(item, Progress):
                self.say(item.what)

    def at_end(self) -> bool:
        if not self.feed.loaded:
            return False
        if not self.feed.playback.ended:
            self.action_live()
        return True

    def moved(self) -> None:
        self.on_items(self.pump.poll())
        self.draw_now()

    def action_live(self) -> None:
        self.feed.playback.go(len(self.feed.playback.stops) - 1)
        self.moved()

    def open_lane(self, lane: int) -> None:
        self.app.push_screen(ReplayScreen(self.setup, self.feed, lane=lane, leaves=True))

    def action_leave(self) -> None:
        if self._leaves:
            self.dismiss(None)
