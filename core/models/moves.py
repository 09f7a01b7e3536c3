"""Slots moved to the main line in one launch: an adopted branch, whatever its length and place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from specmon.core.models.kv import KvCache
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.replays import Replays


class SlotMoves:
    """Moves of up to 16 slots of `kv`, one graph a number of slots."""

    def __init__(self, kv: KvCache, device: torch.device, *, graphs: bool) -> None:
        self._kv = kv
        self._replays = Replays(device, graphs=graphs, repeat=False)
        shape = 2, MAX_ROWS  # from where, to where
        self._start = torch.zeros(shape, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._start_here = self._start.numpy()
        self._near = torch.zeros(shape, dtype=torch.int64, device=device)

    def __call__(self, slots: Sequence[int], first: int) -> int | None:
        """Queue the move of `slots` to first, first + 1, … and wait for nothing. Returns: the host's launches.

        The move before it must be done: passes were waited for since.
        """
        n = len(slots)
        self._start_here[:, :n] = [list(slots), list(range(first, first + n))]
        return self._replays.run(n, partial(self._enqueue, n))

    def _enqueue(self, n: int) -> None:
        self._near.copy_(self._start, non_blocking=True)
        self._kv.move(self._near[0, :n], self._near[1, :n])
