"""Where the head leaves what won: one piece of memory a pass, so that any number of passes come to the host in one copy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
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
