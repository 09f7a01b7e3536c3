"""Processes of a run on several devices: what the one that leads hears while it waits for the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from tests.gpus import needs_two

from specmon.core.errors import SpecmonError
from specmon.core.training.ranks import Ranks, ranks_on

on_two = pytest.mark.parametrize(
    "two",
    [("cpu:0", "cpu:1"), pytest.param(("cuda:0", "cuda:1"), marks=[pytest.mark.gpu2, needs_two])],
    ids=["cpu", "cuda"],
)
Two = tuple[str, str]


@pytest.fixture(autouse=True)
def _others_find_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


def come_along(ranks: Ranks) -> None:
    ranks.wait()


def be_killed(ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dawdle(ranks: Ranks) -> None:
    time.sleep(600)


@on_two
def test_both_come_to_the_same_place_and_part(two: Two) -> None:
    with ranks_on(two, come_along) as ranks:
        ranks.wait()

    assert not torch.distributed.is_initialized()
    assert [other.exitcode for other in ranks.others] == [0]


@on_two
def test_a_process_that_is_killed_is_named(two: Two) -> None:
    with (
        pytest.raises(SpecmonError, match=rf"^The process on {two[1]} was killed by signal 9\.$"),
        ranks_on(two, be_killed) as ranks,
    ):
        ranks.wait()
    assert not torch.distributed.is_initialized()


@on_two
def test_ctrl_c_is_heard_while_the_other_is_waited_for(two: Two) -> None:
    def wait_in_vain() -> None:
        with ranks_on(two, dawdle) as ranks:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            ranks.wait()

    with pytest.raises(KeyboardInterrupt):
        wait_in_vain()
    assert not torch.distributed.is_initialized()


@on_two
def test_a_signal_while_processes_start_ends_the_run_and_them(two: Two) -> None:
    heard = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    heard.start()
    with pytest.raises(KeyboardInterrupt), ranks_on(two, dawdle):
        pytest.fail("the others cannot be here yet")
