"""Ctrl+c ends `specmon train` on two devices: every process of it, with the state saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.gpus import needs_two
from tests.tiny_models import TinyModels

CODE = "import sys; from specmon.tui.commands.main import main; sys.exit(main())"
SMALL = ("--tokens", "3000", "--row-tokens", "64", "--batch-tokens", "256", "--steps", "1000000")
LONGEST_S = 120


@pytest.mark.parametrize(
    "devices",
    ["cpu:0,cpu:1", pytest.param("cuda:0,cuda:1", marks=[pytest.mark.gpu2, needs_two])],
)
def test_a_training_ends_on_ctrl_c_with_all_its_processes(
    tiny: TinyModels, tmp_path: Path, devices: str
) -> None:
    options = ("--target", str(tiny.target()), "--out", str(tmp_path), "--devices", devices, *SMALL)
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "train", "draft", *options, "--hidden", "64", "--layers", "1"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, as a terminal gives a command
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "step 0:" in line:
            os.killpg(process.pid, signal.SIGINT)
            break
    _, rest = process.communicate(timeout=LONGEST_S)

    assert process.returncode == 130, said + rest
    assert "specmon: Finishing this step, then saving;" in rest
    assert "specmon: Stopped. Go on with: specmon train draft" in rest
    assert (tmp_path / "checkpoint.safetensors").exists()
    wait_until_gone(process.pid)


def wait_until_gone(group: int) -> None:
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process of the training is still there")
