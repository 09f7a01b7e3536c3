"""y = x / sqrt(mean(x²) + eps) · weight.

Source: Zhang & Sennrich 2019. The mean runs along the contiguous last dimension, which torch sums row by
row; every other step is one rounding an element, so a row's bits do not depend on the rows beside it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rmsnorm(x_RD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Normalise each row in fp32.

    Shapes: x_RD [..., D] fp32 or bf16; weight_D [D]. Returns: fp32, same shape.
    """
    return torch.rms_norm(x_RD.float(), weight_D.shape, weight_D.float(), eps)
