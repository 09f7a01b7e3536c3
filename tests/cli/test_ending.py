"""A real process that is ended from outside, or loses its terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specmon.core.events import Header
from specmon.core.session.writer import SessionWriter

from .conftest import turn_events

COMMAND = [sys.executable, "-m", "specmon.tui.commands", "replay", "--plain", "--follow"]


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """A recording that is not closed: whoever follows it waits for the rest."""
    path = tmp_path / "growing.session"
    writer = SessionWriter(path)
    for event in [Header(t=0, utc_start="2026-11-29T20:51:07"), *turn_events()[:-1]]:
        writer.write(event)
    writer.flush()
    return path


@pytest.fixture(autouse=True)
def hang_ups_are_heard() -> Iterator[None]:
    """Processes started here heed SIGHUP even where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_plain_replay_ends_without_a_traceback(
    growing: Path, private_home: dict[str, str], ending: signal.Signals, code: int
) -> None:
    with following([*COMMAND, str(growing)], private_home) as process:
        process.send_signal(ending)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, b"")


def test_command_whose_terminal_closes_exits_129(growing: Path, private_home: dict[str, str]) -> None:
    child, terminal = pty.fork()
    if not child:
        os.execve(sys.executable, [*COMMAND, str(growing)], private_home)
    assert os.read(terminal, 1)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129


def test_hang_up_ignored_at_the_start_stays_ignored(growing: Path, private_home: dict[str, str]) -> None:
    with following(["nohup", *COMMAND, str(growing)], private_home) as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143


def test_follower_says_that_its_recording_is_gone(growing: Path, private_home: dict[str, str]) -> None:
    with following([*COMMAND, str(growing)], private_home) as process:
        growing.unlink()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count(b"is gone")) == (0, 1)


@contextmanager
def following(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process that has begun to print; it does not outlive the test."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        try:
            yield process
        finally:
            process.kill()
