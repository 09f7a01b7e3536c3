"""Processes of a run on several devices: what the one that leads hears while it waits for the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from specmon.core.errors import SpecmonError
from specmon.core.training.ranks import Ranks, ranks_on

TWO = ("cpu:0", "cpu:1")


@pytest.fixture(autouse=True)
def _others_find_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


def come_along(ranks: Ranks) -> None:
    ranks.wait()


def be_killed(ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dawdle(ranks: Ranks) -> None:
    time.sleep(600)


def test_both_come_to_the_same_place_and_part() -> None:
    with ranks_on(TWO, come_along) as ranks:
        ranks.wait()

    assert not torch.distributed.is_initialized()
    assert [other.exitcode for other in ranks.others] == [0]


def test_a_process_that_is_killed_is_named() -> None:
    with (
        pytest.raises(SpecmonError, match=r"^The process on cpu:1 was killed by signal 9\.$"),
        ranks_on(TWO, be_killed) as ranks,
    ):
        ranks.wait()
    assert not torch.distributed.is_initialized()


def test_ctrl_c_is_heard_while_the_other_is_waited_for() -> None:
    def wait_in_vain() -> None:
        with ranks_on(TWO, dawdle) as ranks:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            ranks.wait()

    with pytest.raises(KeyboardInterrupt):
        wait_in_vain()
    assert not torch.distributed.is_initialized()


def test_a_signal_while_processes_start_ends_the_run_and_them() -> None:
    heard = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    heard.start()
    with pytest.raises(KeyboardInterrupt), ranks_on(TWO, dawdle):
        pytest.fail("the others cannot be here yet")
