"""Rotary position embedding: dimensions (i, i + D/2) of each head turn by position · inverse_frequency[i].

    y1 = x1·cos − x2·sin,  y2 = x2·cos + x1·sin        (x1, x2: first and second half of a head)

The table holds −sin in its first half, so the whole head is x·cos + swap(x)·sin. Each product and sum is
rounded by itself, so bits do not depend on the row count. Source: Su et al. 2021; halves paired as in
Hugging Face's Llama.
"""

from __future__ import annotations

import torch
from torch import Tensor


class RopeTable:
    """cos and signed sin for every position of a context.

    Shapes: cos, sin [max_len, 1, D] fp32, so that indexed by R positions they fit x_RHD. `scale` multiplies
    both (YaRN's attention factor).
    """

    def __init__(self, inverse_frequency: Tensor, max_len: int, scale: float = 1.0) -> None:
        """inverse_frequency [D/2]; the table lies on its device. Angles are computed in fp64."""
        angles = torch.arange(max_len, dtype=torch.float64)[:, None] * inverse_frequency.double().cpu()
        cos, sin = angles.cos() * scale, angles.sin() * scale
        device = inverse_frequency.device
        self.cos = torch.cat((cos, cos), dim=1).float().unsqueeze(1).to(device)
        self.sin = torch.cat((-sin, sin), dim=1).float().unsqueeze(1).to(device)

    def __len__(self) -> int:
        return len(self.cos)

    def rows(self, positions: slice | Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of some positions, each [R, 1, D]; a slice gives views."""
        return self.cos[positions], self.sin[positions]


def apply_rope(x_RHD: Tensor, cos_R1D: Tensor, sin_R1D: Tensor) -> Tensor:
    """Turn each row's heads to its position; the q and k heads of a row can go in one call.

    Shapes: x_RHD [R, H, D]; cos_R1D, sin_R1D [R, 1, D] fp32 from one `RopeTable`. Returns: [R, H, D] fp32.
    """
    x_RHD = x_RHD.float()
    swapped_RHD = x_RHD.roll(x_RHD.shape[-1] // 2, dims=-1)
    return swapped_RHD.mul_(sin_R1D).add_(x_RHD * cos_R1D)
