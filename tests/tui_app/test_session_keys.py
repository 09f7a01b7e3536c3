"""What a session keeps and gives away: history, edited messages, settings, the prompt library, saved files."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from specmon.core.bench.prompts import bench_prompts
from specmon.core.engine.messages import Cancel, Generate, Idle, Request
from specmon.core.events import Sampling
from specmon.tui.app import SpecmonApp
from specmon.tui.screens.first_hint import FirstHint
from specmon.tui.screens.history import KEPT, History
from specmon.tui.screens.prompts import PromptsScreen, prompt_rows
from specmon.tui.screens.saving import save
from specmon.tui.widgets.lines import line_width, plain

from .conftest import FakeEngine, turn_events
from .test_monitor import decoding, press, row, settle

LiveApp = Callable[..., SpecmonApp]
SIZE = (80, 24)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_history_is_there_at_the_next_start_and_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history.jsonl"
    first = History(path)
    for text in ("one", "two\nlines", "two\nlines"):
        first.add(text)
    second = History(path)
    assert second.older("draft") == "two\nlines"
    assert second.older("") == "one"
    assert second.older("") is None
    assert (second.newer(), second.newer(), second.newer()) == ("two\nlines", "draft", None)
    assert mode(path) == 0o600


def test_history_passes_over_what_is_no_prompt(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'"good"\n{"no": 1}\n\xff\n"torn')
    history = History(path)
    assert history.older("") == "good"
    assert history.older("") is None


def test_history_keeps_the_newest_prompts_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"{n}"\n' for n in range(3 * KEPT)))
    assert History(path).older("") == str(3 * KEPT - 1)
    assert len(path.read_bytes().splitlines()) == KEPT
    assert mode(path) == 0o600


def test_history_that_cannot_be_written_still_recalls(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file" / "history.jsonl")
    history.add("one")
    assert history.older("") == "one"


async def test_prompts_of_the_last_start_are_recalled(
    live_app: LiveApp, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "hint-seen").touch()
    (tmp_path / "history.jsonl").write_text('"from yesterday"\n')
    async with live_app(state=tmp_path).run_test(size=SIZE) as pilot:
        monitor = await settle(pilot)
        await press(pilot, "i", "up")
        assert monitor.prompt.text == "from yesterday"


async def test_edited_message_replaces_the_last_one(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await decoding(pilot, engine)
        engine.give(*turn_events(0, 0, end=True)[-1:], Idle(of="Generate"))
        monitor = await settle(pilot)
        await press(pilot, "E")
        assert monitor.prompt.text == "hi"
        await press(pilot, "escape")
        await settle(pilot)
        assert "editing your last message" in row(monitor, "prompt-line")
        await press(pilot, "i", *"!!", "enter")
        sent = engine.sent(Generate)[-1]
        assert isinstance(sent, Generate)
        assert sent.request.messages == (("user", "hi!!"),)
        assert not monitor.editing


async def test_nothing_to_edit_is_said(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        monitor = await settle(pilot)
        await press(pilot, "E")
        assert "no answered message" in row(monitor, "hints")


async def test_settings_of_sampling_reach_the_next_request(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        monitor = await settle(pilot)
        await press(pilot, "o", "up", "up", "up", "right", "right", "down", "right", "enter")
        assert (monitor.plan.temperature, monitor.plan.seed) == (0.6, 1)
        await press(pilot, "i", "x", "enter")
        request = engine.sent(Generate)[-1].request  # type: ignore[union-attr]
        assert (request.sampling, request.seed) == (Sampling(temperature=0.6), 1)


async def test_prompt_library_puts_a_prompt_into_the_prompt(live_app: LiveApp, engine: FakeEngine) -> None:
    async with live_app().run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        monitor = await settle(pilot)
        await press(pilot, "P", "down", "down")
        assert isinstance(pilot.app.screen, PromptsScreen)
        await press(pilot, "enter")
        await settle(pilot)
        assert monitor.prompt.text == bench_prompts()[2].text
        assert monitor.prompt.has_focus
        assert not engine.sent(Generate)


@pytest.mark.parametrize("cells", [70, 106])
def test_prompt_rows_fit(cells: int) -> None:
    rows = prompt_rows(3, cells)
    assert len(rows) == 11
    assert {line_width(line) for line in rows} == {cells}
    assert [plain(line).startswith("▶") for line in rows].index(True) == 3


async def test_answer_is_copied_and_saved_privately(
    live_app: LiveApp, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "hint-seen").touch()
    async with live_app(state=tmp_path).run_test(size=SIZE) as pilot:
        monitor = await settle(pilot)
        await press(pilot, "y", "D")
        assert "no answer yet" in row(monitor, "hints")
        monitor = await decoding(pilot, engine)
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith("def merge(a, b):")
        await press(pilot, "D", "D", "I")
        texts = sorted((tmp_path / "saved").glob("*.txt"))
        pictures = list((tmp_path / "saved").glob("*.svg"))
        assert [path.read_text() for path in texts] == [pilot.app.clipboard] * 2
        assert "<svg" in pictures[0].read_text()
        assert {mode(path) for path in (*texts, *pictures)} == {0o600}


def test_saving_never_overwrites(tmp_path: Path) -> None:
    paths = {save(tmp_path, "txt", str(n)) for n in range(3)}
    assert sorted(path.read_text() for path in paths) == ["0", "1", "2"]


async def test_first_hint_shows_once_and_goes_away_with_any_key(
    live_app: LiveApp, engine: FakeEngine, tmp_path: Path
) -> None:
    for shown in (True, False):
        async with live_app(state=tmp_path / "state").run_test(size=SIZE) as pilot:
            await settle(pilot)
            assert isinstance(pilot.app.screen, FirstHint) is shown
            if shown:
                await press(pilot, "x")
                assert not isinstance(pilot.app.screen, FirstHint)
            assert engine.commands  # loading goes on below it


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_first_hint_leaves_loading_in_sight(
    live_app: LiveApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with live_app(state=tmp_path / "state").run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.pause(0.1)
        assert isinstance(pilot.app.screen, FirstHint)
        shown = pilot.app.export_screenshot().replace("&#160;", " ")
        assert "LIVE" in shown
        assert "starting the engine" in shown
        assert "help" in shown


async def test_first_hint_stays_away_from_recordings(
    replay_app: Callable[..., SpecmonApp], tmp_path: Path
) -> None:
    async with replay_app(state=tmp_path).run_test(size=SIZE) as pilot:
        await pilot.pause(0)
        assert not isinstance(pilot.app.screen, FirstHint)


async def test_first_hint_leaves_the_first_key_to_a_given_prompt_and_comes_without_one(
    live_app: LiveApp, engine: FakeEngine, tmp_path: Path
) -> None:
    async with live_app(Request(messages=(("user", "x"),)), state=tmp_path).run_test(size=SIZE) as pilot:
        await settle(pilot)
        engine.ready()
        await settle(pilot)
        assert engine.sent(Generate)
        await press(pilot, "x")
        assert engine.sent(Cancel)
    async with live_app(state=tmp_path).run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert isinstance(pilot.app.screen, FirstHint)
