"""A tmux server of its own, in which a test types and reads the screen."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE_S = 90.0


class Pane:
    """One program on a screen of `columns` × `rows`."""

    def __init__(self, command: list[str], columns: int, rows: int, environment: dict[str, str]) -> None:
        self._server = f"specmon-test-{uuid.uuid4().hex[:8]}"
        self._environment = environment
        line = f"{shlex.join(command)}; code=$?; echo; echo EXIT $code; exec cat"
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", line)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._server, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False)
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        """What is on the screen now."""
        return self._tmux("capture-pane", "-p")

    def end_program(self, ending: signal.Signals = signal.SIGTERM) -> None:
        """Send the program a signal."""
        shell = self._tmux("list-panes", "-F", "#{pane_pid}").strip()
        children = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout
        os.kill(int(children.split()[0]), ending)

    def wait_for(self, *texts: str) -> str:
        """The first screen that shows all of `texts`."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            shown = self.screen()
            if all(text in shown for text in texts):
                return shown
        pytest.fail(f"no {texts} within {PATIENCE_S:.0f} s on this screen:\n{self.screen()}")

    def wait_gone(self, text: str) -> str:
        """The first screen without `text`. After Escape it is this that keeps the next key from becoming alt+key."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if text not in (shown := self.screen()):
                return shown
        pytest.fail(f"{text!r} stays on the screen:\n{self.screen()}")

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Callable[..., Pane]]:
    """Start specmon with some arguments in a tmux pane; its state and config are the test's own."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    state, config = tmp_path / "state", tmp_path / "config"
    (state / "specmon").mkdir(parents=True)
    (state / "specmon" / "hint-seen").touch()
    left_out = ("TMUX", "SSH_", "COLUMNS", "LINES")  # the last two would stand for the pane's own size
    outside = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = {
        **outside,
        "XDG_STATE_HOME": str(state),
        "XDG_CONFIG_HOME": str(config),
        "LC_ALL": "C.UTF-8",
    }
    panes: list[Pane] = []

    def start(*arguments: str, columns: int = 160, rows: int = 48) -> Pane:
        command = [sys.executable, "-m", "specmon.tui.commands", *arguments]
        panes.append(Pane(command, columns, rows, environment))
        return panes[-1]

    yield start
    for opened in panes:
        opened.close()
