"""Worker processes end with what they work for, however that ends, and say nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = """
import threading

from specmon.kernels.workers import workers

def work(_):
    print("working", flush=True)
    threading.Event().wait()

if __name__ == "__main__":
    try:
        with workers(2) as pool:
            for _ in pool.map(work, range(50)):
                pass
    except KeyboardInterrupt:
        raise SystemExit(130)
"""


@pytest.fixture
def working(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command whose two workers are busy, in a process group of its own, as a terminal runs it."""
    script = tmp_path / "command.py"
    script.write_text(SCRIPT)
    command = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    with command:
        assert command.stdout is not None
        assert [command.stdout.readline() for _ in range(2)] == ["working\n"] * 2
        yield command
        command.kill()


def test_ctrl_c_ends_workers_at_once_and_quietly(working: subprocess.Popen[str]) -> None:
    os.killpg(working.pid, signal.SIGINT)
    out, err = working.communicate(timeout=60)  # workers hold the other end as long as they live
    assert (working.returncode, out, err) == (130, "", "")


def test_workers_do_not_outlive_a_killed_command(working: subprocess.Popen[str]) -> None:
    working.kill()
    assert working.stdout is not None
    assert working.stdout.read() == ""
