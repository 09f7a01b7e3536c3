"""The live monitor: a cockpit over a running engine, with a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.widget import Widget

from specmon.core import paths
from specmon.core.engine.messages import (
    ArMeasured,
    Cancel,
    Command,
    Generate,
    Idle,
    LaneConfig,
    Load,
    Mark,
    MeasureAr,
    Ready,
    Record,
    Refused,
    Request,
)
from specmon.core.errors import SpecmonError
from specmon.core.events import TurnEnd
from specmon.tui.feeds.feed import Died, FeedItem, Warned
from specmon.tui.feeds.live import LiveFeed
from specmon.tui.screens.arrangement import Chrome, Places
from specmon.tui.screens.choices import Plan, plan_of
from specmon.tui.screens.cockpit import JUMP_KEYS, LAST_KEYS, SELECT_KEYS, VIEW_KEYS, ZOOM_KEYS, Cockpit
from specmon.tui.screens.conversation import Conversation
from specmon.tui.screens.death import DeathScreen
from specmon.tui.screens.history import History
from specmon.tui.screens.keys import key
from specmon.tui.screens.prompt import PROMPT_KEYS, Prompt
from specmon.tui.screens.prompt_line import prompt_line, welcome_lines
from specmon.tui.screens.prompts import PromptsScreen
from specmon.tui.screens.recovery import LeftBehind
from specmon.tui.screens.saving import save
from specmon.tui.screens.settings import SettingsScreen
from specmon.tui.screens.stage import Setup
from specmon.tui.view import View

PROMPT_MARK_CELLS = 3
Phase = Literal["starting", "idle", "busy", "dead"]


@dataclass(frozen=True, kw_only=True)
class Start:
    """How the monitor begins: what to load, what to ask at once, where recordings go.

    `template` gives later requests all but their messages; `record` keeps a recording from the start,
    `recordings` is the folder in which the `r` key keeps one. `state` is the folder of the prompts sent before and
    of what the user saves; None remembers nothing and saves beside the recordings.
    """

    config: LaneConfig
    request: Request | None
    template: Request
    record: str | None
    force: bool
    recordings: Path
    state: Path | None = None


class MonitorScreen(Cockpit):
    """Drives the engine through `feed`: one request at a time on lane 0."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "i",
            "prompt",
            "type",
            "type a prompt; Enter sends it, Esc keeps the text",
            section="Request",
            at_once=True,  # what is typed right behind it belongs into the prompt
        ),
        key(
            "space",
            "freeze",
            "freeze",
            "freeze the view, never decoding",
            section="Request",
            shown="Space",
            hint=True,
        ),
        key("x", "cancel", "cancel", "cancel the request", section="Request", hint=True),
        *ZOOM_KEYS,
        *JUMP_KEYS,
        *SELECT_KEYS,
        key("R", "race", "race", "race AR, SD and SSD on this prompt", section="Request", hint=True),
        key("r", "record", "keep", "keep the recording, or no longer", section="Request", hint=True),
        key("o", "settings", "set", "settings of the next turn", section="Request", hint=True),
        *VIEW_KEYS,
        key("E", "edit", "edit", "edit the last message and send it in its place", section="Request"),
        key("P", "prompts", "prompts", "library of benchmark prompts", section="Request", hint=True),
        key("y", "copy", "copy", "copy the answer to the clipboard (OSC 52)", section="Request"),
        key("D", "save", "save", "save the answer as a text file", section="Request"),
        key("b", "measure_ar", "measure AR", "measure an AR step here", section="Request", hint=True),
        key("m", "mark", "mark", "put a mark into the recording", section="Request", hint=True),
        key("K", "recover", "recover", "keep what runs that were cut short left behind", section="Request"),
        key("N", "new", "new", "start a new conversation", section="Request", hint=True),
        key("ctrl+r", "restart", "restart", "start the engine again after it died", section="Request"),
        *LAST_KEYS,
    ]

    def __init__(self, setup: Setup, feed: LiveFeed, start: Start, race: Callable[[Request], None]) -> None:
        history = start.state / "history.jsonl" if start.state is not None else None
        self.prompt = Prompt(History(history), id="prompt")
        super().__init__(setup)
        self.feed = feed
        self.start = start
        self.plan = plan_of(start.config, start.template)
        self.loaded: LaneConfig | None = None
        self.phase: Phase = "starting"
        self.running: str | None = None
        self.conversation = Conversation(start.template)
        self.queued: Request | None = None
        self._race = race
        self.left_behind = LeftBehind(start.state)
        self._marks = 0
        self.editing = False  # whether the next prompt replaces the newest question
        self._ever_loaded = False

    def line_ids(self) -> tuple[str, ...]:
        return ("welcome", "prompt-line", "prompt-mark")

    def own_parts(self) -> list[Widget]:
        return [self.prompt]

    # --- drawing --------------------------------------------------------------------------------------------

    def chrome(self) -> Chrome:
        return replace(self.CHROME, prompt_rows=self.prompt.rows)

    def places(self, size: Size) -> Places:
        places = super().places(size)
        box = places.pop("prompt", None)
        if box is not None and self.prompt.has_focus:
            places["prompt-mark"] = Region(box.x, box.y, PROMPT_MARK_CELLS, box.height)
            places["prompt"] = Region(PROMPT_MARK_CELLS, box.y, box.width - PROMPT_MARK_CELLS, box.height)
        elif box is not None:
            places["prompt-line"] = box
        if self.turn_metrics is None and "text" in places:
            places["welcome"] = places.pop("text")
        return places

    def view(self) -> View:
        view = super().view()
        return replace(view, recording=None, mode="GONE") if self.phase == "dead" else view

    def hint_keys(self) -> list[Binding]:
        return PROMPT_KEYS if self.prompt.has_focus else super().hint_keys()

    def help_keys(self) -> list[Binding]:
        return [*PROMPT_KEYS, *super().help_keys()]

    def draw_lines(self, places: Places) -> None:
        super().draw_lines(places)
        self.lines["prompt-mark"].put([[(" › ", "accent")]])
        self.lines["prompt-line"].put([prompt_line(self)])
        if "welcome" in places:
            region = places["welcome"]
            self.lines["welcome"].put(welcome_lines(self, region.width, region.height))

    # --- what the engine says -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Send what the start asks for."""
        self.keep_recording()
        self.queued = self.start.request
        if self.queued is not None:
            self.conversation.take(self.queued)
        self.load()

    def keep_recording(self) -> None:
        """Keep a recording from the start, if that was asked for."""
        if self.start.record is not None:
            self.feed.send(Record(path=self.start.record, force=self.start.force))

    def load(self) -> None:
        """Have lane 0 made ready as planned."""
        self.run_command(Load(lane=0, config=self.plan.config))

    def run_command(self, command: Command) -> None:
        """Send a command that keeps the engine busy until its `Idle`."""
        self.running = type(command).__name__
        if self.phase != "starting":
            self.phase = "busy"
        self.feed.send(command)

    def on_items(self, items: Sequence[FeedItem]) -> None:
        for item in items:
            match item:
                case Ready():
                    self.loaded, self._ever_loaded = self.plan.config, True
                    for note in item.notes:
                        self.say(note, "warning")
                case TurnEnd():
                    self._turn_ended(item)
                case Idle():
                    self._idle(item.of)
                case Refused():
                    self._refused(item)
                case ArMeasured():
                    self._ar_measured(item)
                case Died():
                    self._died(item)
                case Warned():
                    self.say(item.text, "warning")

    def _turn_ended(self, end: TurnEnd) -> None:
        self.conversation.answered(self.pump.answer)
        if end.error:
            self.say(end.error, "error")

    def _idle(self, of: str) -> None:
        if of != self.running:
            return
        self.phase, self.running = "idle", None
        if self.plan.config != self.loaded and of != "Load":
            self.load()
        elif self.queued is not None and self.loaded is not None:
            request, self.queued = self.queued, None
            self.generate(request)

    def _refused(self, refused: Refused) -> None:
        message = f"{refused.message} {refused.hint}".strip()
        if refused.of == "Load" and not self._ever_loaded:
            self.app.exit(return_code=refused.exit_code, message=message)
            return
        if refused.of == "Load" and self.loaded is not None:
            self.plan = replace(self.plan, config=self.loaded)
        if refused.of == "Generate":
            self.conversation.answered("")
        self.say(message, "error")
        self._idle(refused.of)

    def _ar_measured(self, measured: ArMeasured) -> None:
        lane = self.pump.ledger.lanes.get(measured.lane)
        if lane is not None:
            lane.set_ar_step(measured.kv_len, measured.steps, measured.step_ns)
        self.say(
            f"AR step: {measured.step_ns / 1e6:.2f} ms, median of {measured.steps} at KV {measured.kv_len:,}"
        )

    def _died(self, died: Died) -> None:
        if self.running == "Generate":
            self.conversation.answered(self.pump.answer)
        self.phase, self.running, self.loaded, self.queued = "dead", None, None, None
        log = self.pump.hello.log if self.pump.hello else None
        self.app.push_screen(DeathScreen(self.setup, died, log), self._answer_death)

    def _answer_death(self, restart: bool | None) -> None:
        if restart:
            self.action_restart()

    def action_restart(self) -> None:
        if self.phase != "dead":
            self.say("the engine is running")
            return
        self.pump.restarted()
        self.feed.restart()
        self.phase, self.selected, self.turn = "starting", None, None
        self.load()
        self.draw_now()

    # --- requests -------------------------------------------------------------------------------------------

    def action_prompt(self) -> None:
        if self.phase == "dead":
            self.say("the engine is gone; ctrl+r starts it again", "warning")
            return
        self.set_focus(self.prompt)
        self.rearrange()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "prompt" or not self.prompt.has_focus

    def on_prompt_left(self) -> None:
        self.set_focus(None)
        self.rearrange()

    def on_text_area_changed(self) -> None:
        self.deck.rearrange()

    def on_prompt_sent(self, message: Prompt.Sent) -> None:
        if self.phase == "busy" and self.running == "Generate":
            self.say("still decoding: Esc, then x cancels", "warning")
            return
        self.prompt.sent.add(message.text)
        self.prompt.text = ""
        self.set_focus(None)
        if self.editing:
            self.conversation.withdraw()
        self.editing = False
        self.conversation.template = self.plan.request(self.conversation.template)
        request = self.conversation.ask(message.text)
        if self.phase == "idle":
            self.generate(request)
        else:
            self.queued = request
        self.rearrange()

    def generate(self, request: Request) -> None:
        """Decode one turn."""
        self.pump.thaw()
        self.action_live()
        self.run_command(Generate(lane=0, request=request))

    def at_end(self) -> bool:
        turn = self.turn_metrics
        return self.phase == "dead" or (self.phase == "idle" and turn is not None and turn.end is not None)

    def cancel(self) -> bool:
        if self.phase == "busy" and self.running in ("Generate", "MeasureAr"):
            self.feed.send(Cancel())
            return True
        if self.queued is not None:
            self.queued = None
            self.conversation.answered("")
            return True
        return False

    def action_cancel(self) -> None:
        self.say("cancelling" if self.cancel() else "nothing is being decoded")

    def action_freeze(self) -> None:
        if self.pump.frozen:
            self.pump.thaw()
        else:
            self.pump.freeze()
        self.draw_now()

    def action_live(self) -> None:
        self.pump.thaw()
        super().action_live()

    def action_edit(self) -> None:
        question = self.conversation.last_question
        if question is None or self.phase == "busy":
            self.say("there is no answered message to edit", "warning")
            return
        self._take_prompt(question)
        self.editing = self.phase != "dead"

    def action_prompts(self) -> None:
        self.app.push_screen(PromptsScreen(self.setup), self._take_prompt)

    def _take_prompt(self, text: str | None) -> None:
        """Put a text into the prompt and enter it."""
        if text is not None:
            self.prompt.text = text
            self.prompt.move_cursor(self.prompt.document.end)
            self.action_prompt()

    def action_copy(self) -> None:
        if self.pump.answer:
            self.app.copy_to_clipboard(self.pump.answer)
        self.say("the answer is copied" if self.pump.answer else "there is no answer yet")

    def action_save(self) -> None:
        if not self.pump.answer:
            self.say("there is no answer yet")
            return
        folder = (self.start.state or self.start.recordings) / "saved"
        try:
            self.say(f"saved {save(folder, 'txt', self.pump.answer)}")
        except SpecmonError as error:
            self.say(str(error), "error")

    def action_new(self) -> None:
        self.editing = False
        self.conversation.forget()
        self.say("new conversation")

    def action_record(self) -> None:
        kept = self.pump.recording is not None and self.pump.recording.path is not None
        self.feed.send(Record(path=None if kept else str(paths.private_dir(self.start.recordings))))
        self.say("no longer kept" if kept else "the recording is kept, from the start of this run")

    def action_recover(self) -> None:
        self.say(self.left_behind.keep(self.start.recordings))

    def action_mark(self) -> None:
        self._marks += 1
        self.feed.send(Mark(label=f"mark {self._marks}"))
        self.say(f"mark {self._marks}")

    def action_measure_ar(self) -> None:
        if self.phase != "idle" or self.turn_metrics is None:
            self.say("an AR step is measured between turns, after the first", "warning")
            return
        self.run_command(MeasureAr(lane=0))

    def action_settings(self) -> None:
        header = self.pump.ledger.header
        devices = tuple(device.name for device in header.devices) if header else ()
        self.app.push_screen(SettingsScreen(self.setup, self.plan, devices), self._apply)

    def _apply(self, plan: Plan | None) -> None:
        if plan is None:
            return
        self.plan = plan
        if self.phase == "idle" and plan.config != self.loaded:
            self.load()
        self.draw_now()

    def action_race(self) -> None:
        question = self.prompt.text.strip() or self.conversation.last_question
        if self.phase != "idle" or question is None:
            self.say("a race needs a prompt and an engine at rest", "warning")
            return
        self.conversation.template = self.plan.request(self.conversation.template)
        self._race(self.conversation.once(question))

    def resumed(self) -> None:
        """Back from a race: lane 0 is this conversation's again."""
        self.loaded = None
        self.load()
        self.draw_now()
