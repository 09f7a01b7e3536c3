"""Positions on the device: where a pass begins, and where each pass of a draft does."""

from __future__ import annotations

import torch
from torch import Tensor

from specmon.core.models.passes import MAX_ROWS

#: Positions a chain covers at most: its first rows, then one a step.
REACH = 2 * MAX_ROWS - 1
_APART = (
    4  # int32 words from one cursor to the next: Triton compiles by alignment, and all passes run one binary
)


class Cursors:
    """A first position, read from the host's memory when a graph runs, and those after it. All are [1] int32."""

    def __init__(self, device: torch.device) -> None:
        self.first = torch.zeros(1, dtype=torch.int32, device=device)
        self._ahead = torch.arange(REACH, dtype=torch.int32, device=device)[:, None].repeat(1, _APART)
        self._all = torch.zeros(REACH, _APART, dtype=torch.int32, device=device)

    def begin(self, start: Tensor) -> None:
        """Queue a copy of `start` [1]: every layer reads it, from memory near by."""
        self.first.copy_(start, non_blocking=True)

    def begin_all(self, start: Tensor) -> None:
        """Queue the first position and all after it."""
        self.begin(start)
        torch.add(self._ahead, self.first, out=self._all)

    def __getitem__(self, ahead: int) -> Tensor:
        """The position `ahead` of the first, after `begin_all`."""
        return self._all[ahead]
