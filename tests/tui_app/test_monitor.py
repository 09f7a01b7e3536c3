"""The live monitor's keys and states, over a fake engine and a clock that stands still."""

from __future__ import annotations

import signal
import string
from collections.abc import Callable

import pytest
from textual.binding import Binding
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot

from specmon.core.endings import ended_by
from specmon.core.engine.death import EngineDeath
from specmon.core.engine.messages import (
    ArMeasured,
    Cancel,
    Generate,
    Idle,
    LaneConfig,
    Load,
    Mark,
    MeasureAr,
    Progress,
    Record,
    Recording,
    Refused,
    Request,
)
from specmon.core.events import TurnEnd
from specmon.tui.app import SpecmonApp, screen_text
from specmon.tui.screens.arrangement import PANELS
from specmon.tui.screens.death import DeathScreen
from specmon.tui.screens.formulas import FormulasScreen
from specmon.tui.screens.help import HelpScreen, signs_explained
from specmon.tui.screens.keys import entries
from specmon.tui.screens.monitor import MonitorScreen
from specmon.tui.screens.settings import SettingsScreen
from specmon.tui.screens.stage import SAID_FOR_S
from specmon.tui.widgets.glyphs import ASCII, UNICODE, Glyphs
from specmon.tui.widgets.lines import plain

from .conftest import FakeClock, FakeEngine, turn_events

LiveApp = Callable[..., SpecmonApp]
SIZE = (160, 48)
COMPACT = (80, 24)


def monitor_of(app: SpecmonApp) -> MonitorScreen:
    stage = app.stage
    assert isinstance(stage, MonitorScreen)
    return stage


async def settle(pilot: Pilot[None], seconds: float = 0.3) -> MonitorScreen:
    """Let the app paint, move its clock, and drain its feed once."""
    app = pilot.app
    assert isinstance(app, SpecmonApp)
    assert isinstance(app.setup.clock, FakeClock)
    await pilot.pause(0)
    app.setup.clock.advance(seconds)
    app.tick()
    while app.behind:
        app.tick()
    await pilot.pause(0)
    return monitor_of(app)


async def decoding(pilot: Pilot[None], engine: FakeEngine, rounds: int = 12) -> MonitorScreen:
    """Load, send a prompt, and have some rounds decoded."""
    await settle(pilot)
    engine.ready()
    await settle(pilot)
    await press(pilot, "i", *"hi", "enter")
    engine.give(*turn_events(0, rounds, end=False))
    return await settle(pilot)


async def press(pilot: Pilot[None], *names: str) -> None:
    """Press keys, waiting for the screen to take each; unlike `Pilot.press`, not for the process to idle."""
    for name in names:
        char = name if len(name) == 1 else None
        key = _character_to_key(name) if char and not name.isalnum() else name
        pilot.app.post_message(Key(key, char))
        await pilot.pause(0)


def row(monitor: MonitorScreen, name: str) -> str:
    return "\n".join(plain(line) for line in monitor.lines[name].lines)


async def test_start_loads_the_config_once_painted(live_app: LiveApp, engine: FakeEngine) -> None:
    config = LaneConfig(decoder="sd", draft_len=3)
    async with live_app(config=config).run_test(size=SIZE) as pilot:
        monitor = await settle(pilot)
        assert engine.commands == [Load(lane=0, config=config)]
        assert "Press i" in row(monitor, "welcome")


async def test_progress_shows_a_bar(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        engine.give(Progress(what="loading target", fraction=0.5))
        await settle(pilot)
        monitor = await settle(pilot)
        assert "loading target" in row(monitor, "prompt-line")
        assert "50 %" in row(monitor, "welcome")


async def test_initial_request_is_decoded_when_ready(live_app: LiveApp, engine: FakeEngine) -> None:
    request = Request(messages=(("user", "hello"),), max_new_tokens=9)
    async with live_app(request).run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert not engine.sent(Generate)
        engine.ready()
        await settle(pilot)
        assert engine.sent(Generate) == [Generate(request=request)]


async def test_record_is_sent_before_loading(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(record="/r/a.session", force=True).run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert engine.commands[0] == Record(path="/r/a.session", force=True)


async def test_what_is_typed_right_behind_i_is_in_the_prompt(live_app: LiveApp, engine: FakeEngine) -> None:
    """As when text is pasted key by key: nothing of it is taken for a command, an i in it is a letter."""
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await settle(pilot)
        for letter in "iTwist it":
            pilot.app.post_message(Key("space" if letter == " " else letter, letter))
        await settle(pilot)
        assert monitor.prompt.text == "Twist it"


async def test_prompt_takes_command_keys_as_text(live_app: LiveApp, engine: FakeEngine) -> None:
    typed = "".join(sorted(set(string.ascii_letters + string.digits + ",.[]{}-+=?/ ")))
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        commands = list(engine.commands)
        await press(pilot, "i")
        await press(pilot, *typed)
        assert monitor.prompt.text == typed
        assert engine.commands == commands
        assert pilot.app.is_running


async def test_escape_leaves_the_prompt_and_keeps_its_text(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        monitor = await settle(pilot)
        await press(pilot, "i", *"draft", "escape")
        await settle(pilot)
        assert not monitor.prompt.has_focus
        assert monitor.prompt.text == "draft"
        assert "draft" in row(monitor, "prompt-line")
        await press(pilot, "i", "!")
        assert monitor.prompt.text == "draft!"


async def test_enter_sends_and_leaves(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        sent = engine.sent(Generate)
        assert [command.request.messages for command in sent] == [(("user", "hi"),)]  # type: ignore[union-attr]
        assert not monitor.prompt.has_focus
        assert monitor.prompt.text == ""


async def test_enter_on_a_blank_prompt_sends_nothing(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        monitor = await settle(pilot)
        await press(pilot, "i", "space", "enter")
        await settle(pilot)
        assert not engine.sent(Generate)
        assert monitor.prompt.has_focus


async def test_prompt_sent_while_loading_waits(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, "i", *"early", "enter")
        await settle(pilot)
        assert not engine.sent(Generate)
        engine.ready()
        await settle(pilot)
        assert len(engine.sent(Generate)) == 1


async def test_prompt_sent_while_decoding_is_kept(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "i", *"next", "enter")
        await settle(pilot)
        assert len(engine.sent(Generate)) == 1
        assert monitor.prompt.text == "next"


async def test_up_and_down_recall_prompts_and_the_draft(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "i", *"draft", "up")
        assert monitor.prompt.text == "hi"
        await press(pilot, "up")
        assert monitor.prompt.text == "hi"
        await press(pilot, "down")
        assert monitor.prompt.text == "draft"


async def test_ctrl_j_breaks_the_line_and_the_box_grows(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        monitor = await settle(pilot)
        await press(pilot, "i", "a", "ctrl+j", "b")
        await settle(pilot)
        assert monitor.prompt.text == "a\nb"
        assert monitor.deck.places["prompt"].height == 2


async def test_next_turn_carries_the_conversation(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        engine.give(turn_events(0, 12)[-1], Idle(of="Generate"))
        await settle(pilot)
        await press(pilot, "i", *"more", "enter")
        await settle(pilot)
        request = engine.sent(Generate)[-1].request  # type: ignore[union-attr]
        assert monitor.turn_metrics is not None
        assert request.messages == (
            ("user", "hi"),
            ("assistant", monitor.turn_metrics.text),
            ("user", "more"),
        )


async def test_new_conversation_forgets(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        engine.give(turn_events(0, 12)[-1], Idle(of="Generate"))
        await settle(pilot)
        await press(pilot, "N", "i", *"more", "enter")
        await settle(pilot)
        assert engine.sent(Generate)[-1].request.messages == (("user", "more"),)  # type: ignore[union-attr]


async def test_space_freezes_the_view_only(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine, rounds=4)
        await press(pilot, "space")
        engine.give(*turn_events(0, 9, end=False)[6:])
        await settle(pilot)
        assert len(monitor.rounds) == 4
        assert "FROZEN" in row(monitor, "prompt-line")
        assert "5 rounds behind" in row(monitor, "prompt-line")
        assert not engine.sent(Cancel)
        await press(pilot, "space")
        assert len(monitor.rounds) == 9


async def test_end_returns_to_live(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "space", "comma", "end")
        assert not monitor.pump.frozen
        assert monitor.selected is None


async def test_x_cancels_and_escape_does_not(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        await press(pilot, "escape", "escape")
        assert not engine.sent(Cancel)
        await press(pilot, "x")
        assert engine.sent(Cancel) == [Cancel()]


async def test_x_without_a_request_cancels_nothing(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        await settle(pilot)
        await press(pilot, "x")
        assert not engine.sent(Cancel)


@pytest.mark.parametrize("in_prompt", [False, True])
async def test_ctrl_c_cancels_and_twice_quits_with_130(
    live_app: LiveApp, engine: FakeEngine, in_prompt: bool
) -> None:
    app = live_app()
    async with app.run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        if in_prompt:
            await press(pilot, "i")
        await press(pilot, "ctrl+c")
        assert engine.sent(Cancel) == [Cancel()]
        await press(pilot, "ctrl+c")
    assert app.return_code == 130


async def test_slow_second_ctrl_c_does_not_quit(
    live_app: LiveApp, engine: FakeEngine, clock: FakeClock
) -> None:
    app = live_app()
    async with app.run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        await press(pilot, "ctrl+c")
        clock.advance(2.0)
        await press(pilot, "ctrl+c")
        await settle(pilot)
        assert app.is_running
        await press(pilot, "q")
    assert app.return_code == 0


async def test_refused_first_load_ends_the_app_with_its_code(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app()
    async with app.run_test(size=SIZE) as pilot:
        engine.give(Refused(of="Load", message="There is no folder /x.", exit_code=2))
        await pilot.pause()
        app.tick()
        await pilot.pause()
    assert app.return_code == 2


async def test_refused_change_keeps_what_was_loaded(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app(config=LaneConfig(decoder="ar")).run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        await settle(pilot)
        await press(pilot, "o", "right", "enter")
        await settle(pilot)
        assert engine.sent(Load)[-1].config.decoder == "sd"  # type: ignore[union-attr]
        engine.give(Refused(of="Load", message="No such drafter."))
        monitor = await settle(pilot)
        assert monitor.plan.config.decoder == "ar"
        assert "No such drafter." in row(monitor, "hints")
        assert len(engine.sent(Load)) == 2


async def test_refused_prompt_is_withdrawn_and_the_next_one_goes(
    live_app: LiveApp, engine: FakeEngine
) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        await settle(pilot)
        await press(pilot, "i", *"long", "enter")
        engine.give(Refused(of="Generate", message="The prompt is too long.", exit_code=2))
        monitor = await settle(pilot)
        assert "too long" in row(monitor, "hints")
        await press(pilot, "i", *"short", "enter")
        await settle(pilot)
        assert engine.sent(Generate)[-1].request.messages == (("user", "short"),)  # type: ignore[union-attr]


async def test_settings_while_decoding_apply_at_the_next_turn(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        await press(pilot, "o", "down", "down", "left", "enter")
        await settle(pilot)
        assert len(engine.sent(Load)) == 1
        engine.give(turn_events(0, 12)[-1], Idle(of="Generate"))
        await settle(pilot)
        assert engine.sent(Load)[-1] == Load(config=LaneConfig(draft_len=3))


async def test_settings_escape_changes_nothing(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        monitor = await settle(pilot)
        await press(pilot, "o", "right", "left", "left", "escape")
        await settle(pilot)
        assert monitor.plan.config == LaneConfig()
        assert len(engine.sent(Load)) == 1


async def test_r_keeps_and_no_longer_keeps_the_recording(
    live_app: LiveApp, engine: FakeEngine, recording_notice: Recording
) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "r")
        assert engine.sent(Record) == [Record(path=str(monitor.start.recordings))]
        assert monitor.start.recordings.is_dir()
        engine.give(recording_notice)
        await settle(pilot)
        await press(pilot, "r")
        assert engine.sent(Record)[-1] == Record(path=None)


async def test_m_marks_and_numbers_its_marks(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        await press(pilot, "m", "m")
        assert engine.sent(Mark) == [Mark(label="mark 1"), Mark(label="mark 2")]


async def test_b_measures_ar_between_turns_only(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "b")
        assert not engine.sent(MeasureAr)
        engine.give(turn_events(0, 12)[-1], Idle(of="Generate"))
        await settle(pilot)
        await press(pilot, "b")
        assert engine.sent(MeasureAr) == [MeasureAr()]
        engine.give(ArMeasured(lane=0, steps=32, kv_len=120, step_ns=3_900_000), Idle(of="MeasureAr"))
        await settle(pilot)
        assert monitor.lane_metrics is not None
        assert monitor.lane_metrics.ar_step_ns == 3_900_000


async def test_rounds_are_selected_pinned_and_followed(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "comma")
        assert monitor.selected == 10
        await press(pilot, "up", "full_stop", "full_stop")
        assert monitor.selected is None or monitor.selected == 11
        await press(pilot, "end", "p")
        assert monitor.selected == 11
        await press(pilot, "p")
        assert monitor.selected is None


async def test_jumps_find_misses_rejections_and_the_slowest(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        await press(pilot, "n")
        assert monitor.selected == 2
        await press(pilot, "n")
        assert monitor.selected == 10
        await press(pilot, "n")
        assert monitor.selected == 2
        await press(pilot, "0")
        assert monitor.selected == 10
        await press(pilot, "S")
        assert monitor.selected == 3


async def test_digits_zoom_panels_and_back(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        monitor = await decoding(pilot, engine)
        for digit, name in enumerate(PANELS, start=1):
            await press(pilot, str(digit))
            await pilot.pause()
            assert set(monitor.deck.places) & set(PANELS) == {name}
            assert monitor.panels[name].size.height == 20
            await press(pilot, "escape")
        assert monitor.zoomed is None
        await press(pilot, "z")
        assert monitor.zoomed == PANELS[-1]


@pytest.mark.parametrize(
    ("keys", "screen"), [("?", HelpScreen), ("e", FormulasScreen), ("o", SettingsScreen)]
)
async def test_sheets_open_and_escape_closes(
    live_app: LiveApp, engine: FakeEngine, keys: str, screen: type[object]
) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        await decoding(pilot, engine)
        await press(pilot, keys)
        await pilot.pause()
        assert isinstance(pilot.app.screen, screen)
        await press(pilot, "escape")
        await pilot.pause()
        assert isinstance(pilot.app.screen, MonitorScreen)


@pytest.mark.parametrize("signs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_help_explains_every_sign_of_the_timeline(signs: Glyphs) -> None:
    explained = {
        sign for shown, text in signs_explained(signs) if "timeline" in text for sign in shown.split()
    }
    assert explained >= set(signs.spans.values())


async def test_help_names_every_key_of_the_screen(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await decoding(pilot, engine)
        sheet = HelpScreen(monitor.setup, monitor.help_keys())
        narrow = [plain(line) for line in sheet.sheet_lines(70)]
        assert max(map(len, narrow)) <= 70
        text = " ".join(" ".join(narrow).split())
        bindings = entries(b for b in MonitorScreen.BINDINGS if isinstance(b, Binding))
        assert len(bindings) >= 30
        for binding in bindings:
            assert str(binding.key_display) in text
            assert " ".join(binding.tooltip.split()) in text
        assert "until the mouse leaves" in text
        assert "░" in text


@pytest.mark.parametrize("size", [SIZE, COMPACT, (79, 24)])
async def test_every_key_is_harmless(live_app: LiveApp, engine: FakeEngine, size: tuple[int, int]) -> None:
    """Outside the prompt each key acts, twice, and never breaks the app, with or without a turn."""
    bindings = [b for b in MonitorScreen.BINDINGS if isinstance(b, Binding)]
    names = [name for b in bindings for name in b.key.split(",") if name not in ("q", "R")]
    async with live_app().run_test(size=size) as pilot:
        await settle(pilot)
        for name in names:
            await press(pilot, name, "escape", "escape")
        await decoding(pilot, engine)
        for name in names:
            await press(pilot, name, "escape", "escape", "escape")
        await settle(pilot)
        assert pilot.app.is_running


async def test_small_terminal_says_what_it_needs(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=(79, 24)) as pilot:
        monitor = await settle(pilot)
        assert set(monitor.deck.places) == {"too-small"}
        assert "80×24" in row(monitor, "too-small")
        assert "79×24" in row(monitor, "too-small")


async def test_dead_engine_is_told_and_restarted(
    live_app: LiveApp, engine: FakeEngine, recording_notice: Recording
) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        await decoding(pilot, engine)
        engine.give(recording_notice)
        engine.dead = EngineDeath(
            reason="The engine was ended by signal 9 (SIGKILL).", log_tail=("boom\x1b[31m",)
        )
        await settle(pilot)
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, DeathScreen)
        text = "\n".join(plain(line) for line in screen.shown)
        assert "signal 9" in text
        assert "boom␛[31m" in text
        assert "/r/x.session" in text
        await press(pilot, "r")
        monitor = await settle(pilot)
        assert engine.starts == 2
        assert len(engine.sent(Load)) == 2
        assert monitor.phase == "starting"


async def test_a_turn_that_failed_says_so_and_why_in_80_columns(
    live_app: LiveApp, engine: FakeEngine
) -> None:
    why = f"The draft worker {ended_by(signal.SIGKILL)}."
    async with live_app().run_test(size=COMPACT) as pilot:
        monitor = await decoding(pilot, engine)
        assert screen_text(monitor).startswith(" LIVE")
        engine.give(TurnEnd(t=10**9, stop_reason="error", n_tokens=9, rounds=12, error=why))
        await settle(pilot)
        assert screen_text(monitor).startswith(" FAILED")
        assert why in row(monitor, "hints")
        await settle(pilot, SAID_FOR_S + 1)
        assert f"error: {why}" in screen_text(monitor)
        assert why not in row(monitor, "hints")


async def test_dead_engine_can_be_looked_at(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        await decoding(pilot, engine)
        engine.dead = EngineDeath(reason="It is gone.")
        await settle(pilot)
        await settle(pilot)
        await press(pilot, "escape")
        monitor = await settle(pilot)
        assert len(monitor.rounds) == 12
        assert "ctrl+r" in row(monitor, "prompt-line")
        assert screen_text(monitor).startswith(" GONE")
        await press(pilot, "i")
        assert not monitor.prompt.has_focus
        await press(pilot, "ctrl+r")
        await settle(pilot)
        assert engine.starts == 2


async def test_figures_wait_a_quarter_second_and_text_does_not(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine, rounds=4)
        monitor = await settle(pilot)
        shown = monitor.panels["acceptance"].view, monitor.panels["text"].view
        engine.give(*turn_events(0, 6, end=False)[6:])
        await settle(pilot, 0.1)
        assert monitor.panels["acceptance"].view is shown[0]
        assert monitor.panels["text"].view is not shown[1]
        await settle(pilot, 0.2)
        assert monitor.panels["acceptance"].view is not shown[0]


async def test_closing_the_app_closes_the_engine(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, "q")
    app.feed.close()
    app.feed.close()
    assert engine.closed
    assert app.return_code == 0


async def test_loading_engine_is_not_waited_for_long(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        app.feed.close()
        assert engine.patience_s < 1


async def test_idle_engine_gets_time_to_close_its_recording(live_app: LiveApp, engine: FakeEngine) -> None:
    app = live_app()
    async with app.run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        app.feed.close()
        assert engine.patience_s > 5


async def test_hints_tell_the_keys_of_the_mode(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=COMPACT) as pilot:
        monitor = await decoding(pilot, engine)
        assert "freeze" in row(monitor, "hints")
        await press(pilot, "i")
        monitor = await settle(pilot)
        assert "Enter send" in row(monitor, "hints")
        assert "freeze" not in row(monitor, "hints")
        await press(pilot, "escape")
        assert "freeze" in row(await settle(pilot), "hints")
