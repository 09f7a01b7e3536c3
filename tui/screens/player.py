"""The keys that play a recording and move about in it, for every screen that shows one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from textual.binding import Binding

from specmon.core import paths
from specmon.core.errors import SpecmonError
from specmon.core.session.dump import dump_lines
from specmon.core.session.target import create_private, reason_of
from specmon.core.session.writer import write_all
from specmon.tui.feeds.replay import SEARCHED_ROUNDS, ReplayFeed
from specmon.tui.feeds.seek import go_to
from specmon.tui.screens.arrangement import Places
from specmon.tui.screens.ask import AskScreen
from specmon.tui.screens.cockpit import is_full_rejection
from specmon.tui.screens.file_strip import FileStrip
from specmon.tui.screens.keys import key
from specmon.tui.screens.lines_view import LinesView
from specmon.tui.screens.stage import Stage

_STEP = "one round back and on"
_STEP_TURN = "to the start of this turn, then of the one before; to the next turn"
_SPEED = "slower and faster"
_LOOP = "start of a loop here, its end here, loop on or off"
_EXPORT = "save the events from A to B, else this turn's up to here, as JSON lines"

PLAY_KEYS: list[Binding] = [
    key("space", "play", "play", "play and pause", section="Replay", shown="Space", hint=True),
    key("[ left", "step(-1)", "round", _STEP, section="Replay", shown="[ ]", hint=True),
    key("] right", "step(1)", "round", _STEP, section="Replay", shown="[ ]", hint=True),
    key("{", "step_turn(-1)", "turn", _STEP_TURN, section="Replay", shown="{ }", hint=True),
    key("}", "step_turn(1)", "turn", _STEP_TURN, section="Replay", shown="{ }", hint=True),
    key("-", "speed(-1)", "speed", _SPEED, section="Replay", shown="- +", hint=True),
    key("+", "speed(1)", "speed", _SPEED, section="Replay", shown="- +", hint=True),
    key("u", "unit", "unit", "speed in rounds/s or in multiples of real time", section="Replay"),
    key("g", "go", "go", "go to a round (97, 2/97) or a time (1.5s)", section="Replay", hint=True),
]
PLACE_KEYS: list[Binding] = [
    key("A", "loop_start", "loop", _LOOP, section="Replay", shown="A B L", hint=True),
    key("B", "loop_end", "loop", _LOOP, section="Replay", shown="A B L", hint=True),
    key("L", "loop", "loop", _LOOP, section="Replay", shown="A B L", hint=True),
    key("m", "mark", "mark", "a mark here, for this viewing", section="Replay", hint=True),
    key("E", "export", "export", _EXPORT, section="Replay", hint=True),
    key("home", "start", "start", "to the start of the file", section="Replay", shown="Home"),
]


class Player(Stage):
    """Moves `feed`'s position; the screen it is mixed into shows it."""

    feed: ReplayFeed
    strip: FileStrip
    lines: dict[str, LinesView]

    def moved(self) -> None:
        """Draw the new position at once."""
        raise NotImplementedError

    def alert(self) -> str:
        """What must be known of the place shown: that the recording ends here, or what the figures leave out."""
        feed = self.feed
        if feed.playback.ended and feed.cut_here:
            return "recording ends"
        return f"figures leave out the turn's first {feed.left_out:,} rounds" if feed.left_out else ""

    def draw_strip(self, places: Places) -> None:
        """The whole file's strip, where the screen has room for it."""
        if "strip" in places:
            region = places["strip"]
            notes = tuple(self.pump.warnings)
            self.lines["strip"].put(self.strip.lines(region.width, region.height, notes, self.alert()))

    def action_play(self) -> None:
        self.feed.playback.toggle()
        self.moved()

    def action_step(self, by: int) -> None:
        self.feed.playback.step(by)
        self.moved()

    def action_step_turn(self, by: Literal[-1, 1]) -> None:
        self.feed.playback.step_turn(by)
        self.moved()

    def action_start(self) -> None:
        self.feed.playback.go(0)
        self.moved()

    def action_speed(self, by: int) -> None:
        self.feed.playback.speed = self.feed.playback.speed.changed(by)
        self.draw_now()

    def action_unit(self) -> None:
        self.feed.playback.speed = self.feed.playback.speed.other_unit()
        self.draw_now()

    def action_next_miss(self) -> None:
        self._found(self.feed.playback.find_next_miss(), "no round of this recording missed")

    def action_next_rejection(self) -> None:
        found = self.feed.find_next(is_full_rejection)
        self._found(found, f"no draft of the next {SEARCHED_ROUNDS:,} rounds was rejected whole")

    def action_slowest(self) -> None:
        self._found(self.feed.playback.find_slowest(), "no rounds here")

    def _found(self, found: bool, otherwise: str) -> None:
        if found:
            self.moved()
        else:
            self.say(otherwise)

    def action_loop_start(self) -> None:
        self.feed.playback.mark_a = self.feed.playback.at
        self.say("A here; B sets the loop's end")

    def action_loop_end(self) -> None:
        self.feed.playback.mark_b = self.feed.playback.at
        self.say("B here; L loops between A and B")

    def action_loop(self) -> None:
        if not self.feed.playback.toggle_loop():
            self.say("a loop needs A before B")
        self.draw_now()

    def action_mark(self) -> None:
        here = self.feed.playback.here
        if here is not None:
            self.feed.playback.marks.append(self.feed.playback.at)
            self.say("marked, for this viewing")

    def action_go(self) -> None:
        self.app.push_screen(AskScreen("round (97), turn/round (2/97) or time (1.5s, 0:01.5)"), self._go)

    def _go(self, answer: str | None) -> None:
        if not answer:
            return
        if go_to(self.feed.playback, answer):
            self.moved()
        else:
            self.say(f"there is no {answer!r} in this recording", "warning")

    def action_export(self) -> None:
        events = self.feed.events(*self.feed.playback.stretch())
        try:
            path = _free(paths.private_dir(self.setup.recordings) / f"{self.feed.path.stem}.jsonl")
            fd = create_private(path)
            with open(fd, "wb") as out:
                lines = [f"{line}\n".encode() for line in dump_lines(events)]
                write_all(out.fileno(), b"".join(lines), 0)
        except (OSError, SpecmonError) as error:
            self.say(error.message if isinstance(error, SpecmonError) else reason_of(error), "error")
            return
        self.say(f"{len(lines):,} events saved to {path}")


def _free(path: Path) -> Path:
    """The path, with a number where a file of that name is there."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
