"""What answering with the time comes to, in plain Python."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def pong(ping: Tensor, times: Tensor, *, patience: int, clock: Callable[[], int]) -> None:
    """For i = 1 … N: wait until ping is i or more, for `patience` looks at most, then leave `clock`'s time in times[i − 1].

    Shapes: ping [1] int32, which the one that asks raises meanwhile; times [N] int64.
    """
    for i in range(1, len(times) + 1):
        looks = 0
        while ping[0] < i and looks < patience:
            looks += 1
        times[i - 1] = clock()
