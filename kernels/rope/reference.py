"""Rotary position embedding: dimensions (i, i + D/2) of each head turn by position · inverse_frequency[i].

    y1 = x1·cos − x2·sin,  y2 = x2·cos + x1·sin        (x1, x2: first and second half of a head)

Each product and sum is rounded by itself, so bits do not depend on the row count.
Source: Su et al. 2021; half-split layout as in Hugging Face's Llama.
"""

from __future__ import annotations

import torch
from torch import Tensor


class RopeTable:
    """cos and sin for every position of a context, ready to index.

    Shapes: cos, sin [max_len, 1, D/2] fp32, so that `table.cos[positions]` fits [R, heads, D/2].
    `scale` multiplies both (YaRN's attention factor).
    """

    def __init__(self, inverse_frequency: Tensor, max_len: int, scale: float = 1.0) -> None:
        angles = torch.arange(max_len, dtype=torch.float64)[:, None] * inverse_frequency.double().cpu()
        self.cos = (angles.cos() * scale).float().unsqueeze(1).to(inverse_frequency.device)
        self.sin = (angles.sin() * scale).float().unsqueeze(1).to(inverse_frequency.device)

    def __len__(self) -> int:
        return len(self.cos)


def apply_rope(x_RHD: Tensor, cos_R1P: Tensor, sin_R1P: Tensor) -> Tensor:
    """Turn each row's heads to its position; q and k heads of a row can go in one call.

    Shapes: x_RHD [R, H, D]; cos_R1P, sin_R1P [R, 1, D/2] fp32. Returns: [R, H, D] fp32.
    """
    x_RHD = x_RHD.float()
    x1, x2 = x_RHD.chunk(2, dim=-1)
    return torch.cat((x1 * cos_R1P - x2 * sin_R1P, x2 * cos_R1P + x1 * sin_R1P), dim=-1)
