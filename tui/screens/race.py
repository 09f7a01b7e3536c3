"""A live race: one prompt on several lanes, side by side on fair clocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType

from specmon.core import paths
from specmon.core.engine.messages import (
    Cancel,
    Idle,
    LaneConfig,
    Load,
    Mark,
    Race,
    Ready,
    Record,
    Refused,
    Request,
)
from specmon.tui.feeds.feed import Died, FeedItem
from specmon.tui.feeds.live import LiveFeed
from specmon.tui.screens.choices import config_label
from specmon.tui.screens.keys import key
from specmon.tui.screens.lane import LaneScreen
from specmon.tui.screens.race_board import END_KEYS, LOOK_KEYS, RaceBoard
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.glyphs import glyphs
from specmon.tui.widgets.lines import Line
from specmon.tui.widgets.recording_note import recording_note

_FREEZE = "freeze the view, never the race"
_AGAIN = "run the race again, starting order rotated"
_KEEP = "keep the recording, or keep it no longer"
_LEAVE = "back; to the monitor once the race is over"


class RaceScreen(RaceBoard):
    """Loads every lane, runs the race, and shows it; Esc leaves once it is over."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("space", "freeze", "freeze", _FREEZE, section="Race", shown="Space", hint=True),
        key("x", "cancel", "stop", "stop the race", section="Race", hint=True),
        *LOOK_KEYS,
        key("N", "again", "again", _AGAIN, section="Race", hint=True),
        key("r", "record", "keep", _KEEP, section="Race", hint=True),
        key("m", "mark", "mark", "put a mark into the recording", section="Race", hint=True),
        key("escape", "leave", "leave", _LEAVE, section="Race", shown="Esc", hint=True),
        *END_KEYS,
    ]

    def __init__(
        self, setup: Setup, feed: LiveFeed, request: Request, lanes: tuple[LaneConfig, ...], recordings: Path
    ) -> None:
        self._before = setup.pump.start_over()
        super().__init__(setup, len(lanes), planned=[config_label(lane) for lane in lanes])
        self.feed = feed
        self.request = request
        self.lanes = lanes
        self.phase = "loading"
        self._recordings = recordings
        self._leaving = False
        self._loading = 0

    def on_mount(self) -> None:
        self._load(0)

    @property
    def asked(self) -> Request:
        return self.request

    @property
    def waits_for(self) -> str | None:
        if self.phase != "loading":
            return None
        lane = f"lane {'ABCD'[self._loading]}, {config_label(self.lanes[self._loading])}"
        progress = self.pump.progress
        return f"{lane}: {safe_text(progress.what)}" if progress else lane

    def title_right(self, narrow: bool) -> Line:
        recording = recording_note(self.pump.recording, glyphs(self.setup.ascii), roomy=not narrow)
        return [*recording, (f"{' ' if recording else ''}{self._decoding()} ", "muted")]

    def _decoding(self) -> str:
        """Whose turn it is: the lane of the newest round."""
        running = [row for row in self.standings.standings if row.turn.rounds and not row.finished]
        if self.phase != "racing" or not running:
            return ""
        return f"lane {max(running, key=lambda row: row.turn.rounds[-1].t1).letter} decodes"

    # --- the race -------------------------------------------------------------------------------------------

    def _load(self, lane: int) -> None:
        self._loading = lane
        self.feed.send(Load(lane=lane, config=self.lanes[lane]))

    def on_items(self, items: Sequence[FeedItem]) -> None:
        for item in items:
            match item:
                case Ready():
                    for note in item.notes:
                        self.say(note, "warning")
                case Idle(of="Load"):
                    self._loaded()
                case Idle(of="Race"):
                    self._over()
                case Refused():
                    self._refused(item)
                case Died():
                    self.say(f"{item.reason} Esc leaves.", "error")
                    self.phase = "over"

    def _loaded(self) -> None:
        if self.phase != "loading":
            return
        if self._leaving:
            self._over()
        elif self._loading + 1 < len(self.lanes):
            self._load(self._loading + 1)
        else:
            self._run()

    def _run(self) -> None:
        self.phase = "racing"
        self.feed.send(Race(request=self.request))

    def _over(self) -> None:
        self.phase = "over"
        self.draw_now()
        if self._leaving:
            self.action_leave()

    def _refused(self, refused: Refused) -> None:
        self.say(f"{refused.message} {refused.hint}".strip(), "error")
        if refused.of in ("Load", "Race"):
            self._over()

    def cancel(self) -> bool:
        if self.phase != "racing":
            return False
        self.feed.send(Cancel())
        return True

    def action_cancel(self) -> None:
        self.say("stopping" if self.cancel() else "no race is running")

    def action_again(self) -> None:
        if self.phase == "over":
            self.pump.thaw()
            self._run()
        else:
            self.say("this race still runs; x stops it", "warning")

    def action_freeze(self) -> None:
        if self.pump.frozen:
            self.pump.thaw()
        else:
            self.pump.freeze()
        self.draw_now()

    def action_record(self) -> None:
        kept = self.pump.recording is not None and self.pump.recording.path is not None
        self.feed.send(Record(path=None if kept else str(paths.private_dir(self._recordings))))
        self.say("no longer kept" if kept else "the recording is kept, from the start of this run")

    def action_mark(self) -> None:
        self.feed.send(Mark(label="mark"))
        self.say("marked")

    def open_lane(self, lane: int) -> None:
        self.app.push_screen(LaneScreen(self.setup, self, lane))

    def action_leave(self) -> None:
        if self.phase == "over":
            self.pump.thaw()
            self.pump.ledger = self._before
            self.dismiss(None)
        else:
            self._leaving = True
            self.cancel()
            self.say("leaving as soon as the engine is at rest")
