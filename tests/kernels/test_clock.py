"""The device's answers to the host that asks for its time, kernel and reference alike."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from specmon.kernels.clock.pong import pong_kernel
from specmon.kernels.clock.reference import pong

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a GPU has a clock of its own, which tests/test_device_clock.py asks"
)
Pong = Callable[[Tensor, Tensor, int], None]


@pytest.fixture(params=["kernel", "reference"])
def answer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pong]:
    """Answers on the ping [1] and times [N] it is given, with so much patience; the clock is this process's own."""
    if request.param == "reference":
        yield lambda ping, times, patience: pong(ping, times, patience=patience, clock=time.monotonic_ns)
        return
    module = importlib.import_module("specmon.kernels.clock.pong")
    monkeypatch.setattr(module, "globaltimer", time.monotonic_ns)  # the interpreter has none
    yield lambda ping, times, patience: pong_kernel[(1,)](ping, times, N=len(times), PATIENCE=patience)


def test_each_time_was_read_between_its_question_and_its_answer(answer: Pong) -> None:
    ping, times = torch.zeros(1, dtype=torch.int32), torch.zeros(3, dtype=torch.int64)
    windows: list[tuple[int, int]] = []

    def ask(ping: NDArray[np.int32], times: NDArray[np.int64]) -> None:
        for i in range(3):
            before = time.monotonic_ns()
            ping[0] = i + 1
            while times[i] == 0:
                pass
            windows.append((before, time.monotonic_ns()))

    host = threading.Thread(target=ask, args=(ping.numpy(), times.numpy()), daemon=True)
    host.start()
    answer(ping, times, 10**9)
    host.join()

    assert all(before <= t <= after for t, (before, after) in zip(times.tolist(), windows, strict=True))


def test_a_host_that_went_away_is_not_waited_for(answer: Pong) -> None:
    ping, times = torch.ones(1, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)
    answer(ping, times, 5)
    assert bool((times > 0).all())
    assert times.tolist() == sorted(times.tolist())
