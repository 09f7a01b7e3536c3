"""Asks a device for its time."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from specmon.kernels.clock.pong import pong_kernel

_TIMES = 8
_PATIENCE = 200_000  # looks over the bus, about a µs each
_LIMIT_NS = 1_000_000_000


class PingPong:
    """Pinned words in which the host asks a CUDA device for its time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ping = torch.zeros(1, dtype=torch.int32).pin_memory()
        self._times = torch.zeros(_TIMES, dtype=torch.int64).pin_memory()

    def __call__(self, clock: Callable[[], int]) -> list[tuple[int, int, int]]:
        """(host time before, device time, host time after) of each answer, in ns; waits for what is queued on the device.

        Raises: TimeoutError where the device gives no answer within a second.
        """
        torch.cuda.synchronize(self._device)
        ping, times = self._ping.numpy(), self._times.numpy()
        ping[0], times[:] = 0, 0
        with torch.cuda.device(self._device):
            pong_kernel[(1,)](self._ping, self._times, N=_TIMES, PATIENCE=_PATIENCE, num_warps=1)
        limit = time.monotonic_ns() + _LIMIT_NS
        windows = []
        for i in range(_TIMES):
            before = clock()
            ping[0] = i + 1
            while times[i] == 0:
                if time.monotonic_ns() > limit:
                    raise TimeoutError(f"{self._device} does not tell its time")
            windows.append((before, clock()))
        torch.cuda.synchronize(self._device)
        return [
            (before, at, after) for (before, after), at in zip(windows, self._times.tolist(), strict=True)
        ]
