"""A real run and a replay in tmux, driven by keys, judged by what stands on the screen."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from specmon.core.events import TurnEnd
from specmon.core.session.reader import SessionReader

from .conftest import Pane

SESSIONS = Path(__file__).resolve().parents[2] / "sessions"
StartPane = Callable[..., Pane]


@pytest.mark.parametrize(("columns", "rows"), [(160, 48), (80, 24)])
def test_replay_steps_zooms_and_quits(pane: StartPane, columns: int, rows: int) -> None:
    screen = pane("replay", str(SESSIONS / "ssd.session"), columns=columns, rows=rows)
    screen.wait_for("REPLAY", "ssd.session")
    screen.press("Space", "Home")
    screen.wait_for("round 0/")
    screen.press("]")
    screen.wait_for("round 1/")
    screen.press("]")
    shown = screen.wait_for("round 2/")
    assert len(shown.splitlines()) <= rows
    screen.press("5")
    screen.wait_gone("acceptance" if rows < 40 else "ACCEPTANCE")
    screen.press("Escape")
    screen.wait_for("acceptance" if rows < 40 else "ACCEPTANCE")
    screen.press("?")
    screen.wait_for("HELP")
    screen.press("Escape")
    screen.wait_gone("HELP")
    screen.press("q")
    screen.wait_for("EXIT 0")


def test_replay_in_another_theme_and_the_log_pane(pane: StartPane) -> None:
    screen = pane("replay", str(SESSIONS / "ar.session"), "--theme", "paper", columns=100, rows=30)
    screen.wait_for("REPLAY")
    screen.press("T")
    screen.wait_for("theme specmon-dark")
    screen.press("l")
    screen.wait_for("no engine here")
    screen.press("l", "q")
    screen.wait_for("EXIT 0")


def test_terminal_is_restored_after_a_wrong_call(pane: StartPane) -> None:
    screen = pane("run", "--target", "/no/such/model", columns=80, rows=24)
    shown = screen.wait_for("EXIT")
    assert "/no/such/model" in shown.replace("\n", "")
    assert "EXIT 2" in shown


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_terminal_is_restored_when_the_monitor_is_ended_from_outside(
    pane: StartPane, ending: signal.Signals, code: int
) -> None:
    screen = pane("replay", str(SESSIONS / "ar.session"), columns=80, rows=24)
    screen.wait_for("REPLAY")
    screen.end_program(ending)
    shown = screen.wait_for(f"EXIT {code}")
    assert "REPLAY" not in shown
    assert "Traceback" not in shown
    screen.type("typed after the end")
    screen.wait_for("typed after the end")


@pytest.mark.embedded
def test_run_decodes_a_typed_prompt_and_replays_to_the_same_text(pane: StartPane, tmp_path: Path) -> None:
    kept = tmp_path / "kept.session"
    screen = pane("run", "--max-new-tokens", "12", "--record", str(kept))
    screen.wait_for("Press i")
    screen.press("i")
    screen.wait_for("Enter send")
    screen.type("Count to three.")
    screen.press("Enter")
    shown = screen.wait_for("turn 1", "12 tokens")
    tau = re.search(r"τ (\d\.\d\d)", shown)
    assert tau is not None
    screen.press("q")
    screen.wait_for("EXIT 0")
    again = pane("replay", str(kept))
    again.wait_for("REPLAY")
    again.press("End")
    replayed = again.wait_for(f"τ {tau.group(1)}", "12 tokens")
    assert _text(replayed) == _text(shown)
    again.press("q")
    again.wait_for("EXIT 0")


@pytest.mark.embedded
def test_run_that_is_ended_from_outside_keeps_its_recording(pane: StartPane, tmp_path: Path) -> None:
    kept = tmp_path / "kept.session"
    screen = pane("run", "-p", "Tell a long story.", "--max-new-tokens", "2000", "--record", str(kept))
    screen.wait_for("τ", "· accepted", "ms a round")
    screen.end_program()
    screen.wait_for("EXIT 143")
    with SessionReader.open(kept) as reader:
        events = list(reader.events())
        assert not reader.warnings
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].stop_reason == "cancelled"


@pytest.mark.embedded
def test_ctrl_c_twice_while_loading_leaves_the_terminal_whole(pane: StartPane) -> None:
    screen = pane("run")
    screen.wait_for("Press i")
    screen.press("C-c")
    screen.wait_for("ctrl+c again quits")
    screen.press("C-c")
    screen.wait_for("EXIT 130")
    screen.type("typed after the end")
    screen.wait_for("typed after the end")


def _text(shown: str) -> list[str]:
    """The text panel's lines."""
    rows = [line.split("│")[1].strip() for line in shown.splitlines() if line.count("│") >= 4]
    first = next(i for i, row in enumerate(rows) if row.startswith("› "))
    return rows[first : first + 6]
