"""Where the head leaves what won: one piece of memory a pass, so that any number of passes come to the host in one copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specmon.kernels.stream.scaled import ROWS

WORDS = 2 * ROWS + 8  # int64 words a pass


@dataclass(frozen=True, kw_only=True)
class Winners:
    """Of each row the best token [16] int64, its margin over the second best and its probability [16] fp32.

    `stamps` [2] int64: the device's time (ns) as the pass began and as it ended; zeros off NVIDIA GPUs.
    """

    tokens: Tensor
    margins: Tensor
    probs: Tensor
    stamps: Tensor

    @classmethod
    def within(cls, memory: Tensor) -> Winners:
        """Views of `memory` [40] int64; each starts at a multiple of 64 bytes in it."""
        half = ROWS // 2
        return cls(
            tokens=memory[:ROWS],
            margins=memory[ROWS : ROWS + half].view(torch.float32),
            probs=memory[ROWS + half : 2 * ROWS].view(torch.float32),
            stamps=memory[2 * ROWS : 2 * ROWS + 2],
        )


class Won:
    """`Winners` of P passes where the host reads them, as NumPy arrays: reading a tensor costs it several times as much.

    Shapes: tokens, margins, probs [P, 16]; stamps [P, 2].
    """

    def __init__(self, memory: NDArray[np.int64]) -> None:
        half = ROWS // 2
        self.tokens = memory[:, :ROWS]
        self.margins = memory[:, ROWS : ROWS + half].view(np.float32)
        self.probs = memory[:, ROWS + half : 2 * ROWS].view(np.float32)
        self.stamps = memory[:, 2 * ROWS : 2 * ROWS + 2]

    def ran(self, n_passes: int) -> tuple[int, int] | None:
        """When the first passes ran, by the device's clock (ns); None where it has none."""
        began, ended = int(self.stamps[0, 0]), int(self.stamps[n_passes - 1, 1])
        return (began, ended) if ended else None


class WinnersOfPasses:
    """What won in each of up to `n_passes` passes of one piece of work, brought to the host in one copy.

    `won` is what is there when the device is done.
    """

    def __init__(self, n_passes: int, device: torch.device) -> None:
        self._near = torch.zeros(n_passes, WORDS, dtype=torch.int64, device=device)
        self._here = torch.zeros(n_passes, WORDS, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.won = Won(self._here.numpy())

    def near(self, i: int) -> Winners:
        """Those of pass i on the device, for the next pass to read."""
        return Winners.within(self._near[i])

    def memory(self, i: int) -> Tensor:
        """All words of `near(i)` [WORDS] int64."""
        return self._near[i]

    def here(self, i: int) -> Winners:
        """Those of pass i on the host; the device reaches them too, for a pass that nothing follows."""
        return Winners.within(self._here[i])

    def bring(self, n_passes: int) -> None:
        """Queue the copy of the first passes' to the host."""
        self._here[:n_passes].copy_(self._near[:n_passes], non_blocking=True)
