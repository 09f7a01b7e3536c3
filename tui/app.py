"""The Textual application: one feed, the screens over it, and how it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from specmon.core import paths
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.errors import SpecmonError
from specmon.themes import ThemeError, load_theme, theme_names
from specmon.tui.ending import Ending, heeded, let_go_of_lost_terminal, terminable
from specmon.tui.feeds.feed import Feed
from specmon.tui.feeds.live import LiveFeed
from specmon.tui.feeds.pump import Pump
from specmon.tui.feeds.replay import ReplayFeed
from specmon.tui.garbage import Garbage
from specmon.tui.screens.first_hint import FirstHint
from specmon.tui.screens.keys import entries
from specmon.tui.screens.monitor import MonitorScreen, Start
from specmon.tui.screens.saving import save
from specmon.tui.screens.stage import Setup, Stage
from specmon.tui.widgets.palette import Palette, textual_theme

INTERRUPTED = 130
TWICE_WITHIN_S = 2.0
STILL_S = 0.05
BETWEEN_SLICES_S = 0.004  #: for keys and painting, while the view is behind
KEY_FIRST_S, KEY_FIRST_AT_MOST_S = (
    0.06,
    0.2,
)  #: how long a key holds up drawing, and how long keys in a row do


class SpecmonApp(App[None]):
    """Shows a live engine (`LiveFeed`) or a recording (`ReplayFeed`).

    Args:
        theme: a theme's name or file.
        themes: a folder with the user's own themes, which can be named too.
        ascii: draw with ASCII signs alone.
        mouse: whether `run_app` lets the terminal report the mouse.
        initial_request: decoded as soon as the models are loaded.
        template: sampling, seed, stop strings and length of requests typed later; its messages do not count.
        config: what the engine loads first.
        record: where the recording is kept from the start; None keeps none. `force` overwrites a file there.
        recordings: the folder in which the `r` key keeps one; the user's own if None.
        state: the folder of what is remembered across starts; None remembers nothing.
        race_lanes: race `initial_request` on these instead of decoding it once.
        refresh_hz: how often the feed is drained; 0 leaves that to the caller of `tick`.
        clock: seconds that only grow.
        keys: keys for actions by name, as a config file gives them.
        notes: sentences to say at the start.
        once: leave when there is no more to come, with the last screen in `frame`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "cancel; twice quits", show=False, priority=True),
        Binding("ctrl+q", "quit", "quit", show=False),
        Binding("T", "next_theme", "theme", show=False),
        Binding("I", "save_picture", "picture", show=False),
    ]
    CSS = "Screen { background: $background; }"
    TITLE = "specmon"

    def __init__(
        self,
        feed: Feed,
        *,
        theme: str = "specmon-dark",
        themes: Path | None = None,
        ascii: bool = False,
        mouse: bool = True,
        initial_request: Request | None = None,
        template: Request | None = None,
        config: LaneConfig | None = None,
        record: str | None = None,
        force: bool = False,
        recordings: Path | None = None,
        state: Path | None = None,
        race_lanes: tuple[LaneConfig, ...] = (),
        refresh_hz: float = 16.0,
        clock: Callable[[], float] = time.monotonic,
        keys: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        once: bool = False,
    ) -> None:
        look = load_theme(theme, themes)
        super().__init__(ansi_color=look.ansi)
        self.register_theme(textual_theme(look))
        self.theme = look.name
        self._theme, self._themes = theme, themes
        self.mouse = mouse
        self.feed = feed
        self.pump = Pump(feed)
        self.setup = Setup(
            pump=self.pump,
            palette=Palette(look, no_color=self.no_color),
            clock=clock,
            ascii=ascii,
            keys=keys or {},
            recordings=recordings or paths.recordings_dir(),
        )
        self.pump.warnings += notes
        self._notes = notes
        self._start = Start(
            config=config or LaneConfig(),
            request=initial_request,
            template=template or initial_request or Request(messages=()),
            record=record,
            force=force,
            recordings=recordings or paths.recordings_dir(),
            state=state,
        )
        self._race_lanes = race_lanes
        self._refresh_hz = refresh_hz
        self._once = once
        self.frame = ""
        self.ending = Ending()
        self._interrupted_at = float("-inf")
        self._garbage = Garbage()
        self._changed = self._taking_in = False
        self._key_at = self._ticked_at = float("-inf")

    def on_load(self) -> None:
        """Before the terminal is taken."""
        if self._once or not self.is_headless:
            loop = asyncio.get_running_loop()
            for signal in heeded():
                loop.add_signal_handler(signal, self._end_from_outside, signal)

    def on_mount(self) -> None:
        self.push_screen(self._first_stage())
        self.call_after_refresh(self._begin)

    def _end_from_outside(self, signal: int) -> None:
        """Leave in order: the terminal is given back whole, and then the feed closes its recording."""
        let_go_of_lost_terminal()
        self.ending.signal = signal
        self.exit()

    def _first_stage(self) -> Stage:
        if isinstance(self.feed, ReplayFeed):
            from specmon.tui.screens.replay import ReplayScreen  # only what is shown delays the first paint

            return ReplayScreen(self.setup, self.feed)
        assert isinstance(self.feed, LiveFeed)
        return MonitorScreen(self.setup, self.feed, self._start, self._open_race)

    def _begin(self) -> None:
        """Start the feed once the first screen is painted."""
        try:
            self.feed.start()
        except SpecmonError as error:
            self.exit(return_code=error.exit_code, message=str(error))
            return
        if isinstance(self.feed, ReplayFeed) and self.feed.is_race:
            from specmon.tui.screens.race_replay import RaceReplayScreen

            self.switch_screen(
                RaceReplayScreen(self.setup, self.feed, self.feed.playback.stops.lanes_at_start)
            )
        stage = self.stage
        if isinstance(stage, MonitorScreen):
            if self._race_lanes and self._start.request is not None:
                stage.keep_recording()
                self._open_race(self._start.request)
            else:
                stage.begin()
        if not self.is_headless:
            self._garbage.take_over(self.setup.clock())
        self._welcome()
        for note in self._notes:
            self.say(note, "warning")
        if self._refresh_hz > 0:
            self.set_interval(1 / self._refresh_hz, self._tick_after_keys)

    def _welcome(self) -> None:
        """Tell a newcomer the first steps, once and for all; not above what a given prompt decodes."""
        state = self._start.state
        waits = isinstance(self.stage, MonitorScreen) and self._start.request is None and not self._once
        if waits and state is not None and not (seen := state / "hint-seen").exists():
            self.push_screen(FirstHint(self.setup, seen))

    def _tick_after_keys(self) -> None:
        """Tick, unless a key was just pressed: what it does goes first."""
        now = self.setup.clock()
        if now - self._key_at >= KEY_FIRST_S or now - self._ticked_at >= KEY_FIRST_AT_MOST_S:
            self._ticked_at = now
            self.tick()

    def tick(self) -> None:
        """Drain the feed and draw what changed."""
        if self._exit:
            return
        self._take_in()
        stage = self.stage
        if stage is not None and stage.is_mounted:
            changed, self._changed = self._changed, False
            stage.tick(changed)
            self._garbage.drawn(self.setup.clock(), at_rest=not changed)
            if self._once and stage.at_end():
                self._once = False
                stage.draw_now()
                stage.call_after_refresh(self._leave_when_still)

    def _take_in(self) -> None:
        """Take in a slice of what the feed has, and soon the next where there is more."""
        before = self.pump.ledger, self.pump.ledger.newest_t
        items = self.pump.poll()
        self._changed |= bool(items) or before != (self.pump.ledger, self.pump.ledger.newest_t)
        stage = self.stage
        if stage is not None and stage.is_mounted:
            stage.on_items(items)
        if self.behind and not self._taking_in:
            self._taking_in = True
            self.set_timer(BETWEEN_SLICES_S, self._take_in_more)

    @property
    def behind(self) -> bool:
        """Whether more has come than the last slice took in."""
        return self.pump.catching_up or (isinstance(self.feed, LiveFeed) and self.feed.more)

    def _take_in_more(self) -> None:
        self._taking_in = False
        if not self._exit:
            self._take_in()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._key_at = self.setup.clock()
        await super().on_event(event)

    def _leave_when_still(self) -> None:
        """Leave with the screen once it stays as it is: a new arrangement is laid out some messages later."""
        before, self.frame = self.frame, screen_text(self.screen)
        if self.frame == before:
            self.exit()
        else:
            self.set_timer(STILL_S, self._leave_when_still)

    @property
    def stage(self) -> Stage | None:
        """The screen that shows the feed, under any sheet."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, Stage)), None)

    def _open_race(self, request: Request) -> None:
        monitor = self.stage
        assert isinstance(monitor, MonitorScreen)
        lanes = self._race_lanes or race_lanes(monitor.plan.config)
        from specmon.tui.screens.race import RaceScreen

        race = RaceScreen(self.setup, monitor.feed, request, lanes, self._start.recordings)
        self.push_screen(race, lambda _: monitor.resumed())

    # --- keys of every screen -------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        now = self.setup.clock()
        if now - self._interrupted_at < TWICE_WITHIN_S:
            self.exit(return_code=INTERRUPTED)
            return
        self._interrupted_at = now
        stage = self.stage
        if stage is not None:
            what = "cancelling; " if stage.cancel() else ""
            stage.say(f"{what}ctrl+c again quits", "warning")

    def action_next_theme(self) -> None:
        names = theme_names(self._themes)
        at = names.index(self._theme) if self._theme in names else -1
        self.use_theme(names[(at + 1) % len(names)])

    def use_theme(self, name: str) -> None:
        """Draw everything in another theme from now on; one that cannot be used is refused with the reason."""
        self._theme = name
        try:
            look = replace(load_theme(name, self._themes), name=name)
        except ThemeError as error:
            self.say(str(error), "error")
            return
        self.setup.palette.use(look)
        self.register_theme(textual_theme(look))
        self.ansi_color = look.ansi
        self.theme = look.name
        self.say(f"theme {name}")
        for screen in self.screen_stack:
            for widget in screen.query("*"):
                widget.refresh()

    def action_save_picture(self) -> None:
        folder = (self._start.state or self._start.recordings) / "saved"
        try:
            self.say(f"saved {save(folder, 'svg', self.export_screenshot())}")
        except SpecmonError as error:
            self.say(str(error), "error")

    def say(self, text: str, role: Literal["text", "warning", "error"] = "text") -> None:
        """Show a sentence in the hint row."""
        if self.stage is not None:
            self.stage.say(text, role)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key of the screen, by what it does."""
        for binding in entries(screen.keys if isinstance(screen, Stage) else ()):
            action = binding.action
            yield SystemCommand(
                f"{binding.description} ({binding.key_display})",
                binding.tooltip,
                lambda action=action: self.call_later(screen.run_action, action),
            )
        for name in theme_names(self._themes):
            yield SystemCommand(f"theme: {name}", "draw in this theme", partial(self.use_theme, name))


def race_lanes(config: LaneConfig) -> tuple[LaneConfig, ...]:
    """AR, SD and SSD on the same models."""
    return tuple(msgspec.structs.replace(config, decoder=decoder) for decoder in ("ar", "sd", "ssd"))


def screen_text(screen: Screen[object]) -> str:
    """What a screen shows, as lines of text."""
    strips = screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def print_app(app: SpecmonApp, size: tuple[int, int]) -> int:
    """Run an app made with `once` without a terminal, `size` cells large; as `run_app`."""
    try:
        app.run(headless=True, size=size)
    finally:
        _close(app.feed)
    return _exit_code(app)


def run_app(app: SpecmonApp) -> int:
    """Run the app until the user leaves, close its feed, and say how it ended (an exit code).

    An exception inside the app is printed by Textual and gives 1.
    """
    try:
        app.run(mouse=app.mouse)
    finally:
        _close(app.feed)
    return _exit_code(app)


def _exit_code(app: SpecmonApp) -> int:
    return app.ending.exit_code or app.return_code or 0


def _close(feed: Feed) -> None:
    """Close a feed; who presses ctrl+c meanwhile, or ends it once more, has it closed without more patience."""
    with terminable():
        try:
            feed.close()
        except KeyboardInterrupt:
            feed.close(patient=False)
