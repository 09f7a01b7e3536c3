"""y = silu(gate) · up, silu(g) = g / (1 + exp(−g)).

torch evaluates exp with another formula in a vector loop's remainder than in its body, and splits long
calls among threads. `swiglu` therefore calls it on runs of rows in which neither a remainder nor a thread's
border can fall inside a row, and on single rows where the width allows no such run.

Source: Shazeer 2020.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_VECTOR_STEP = 64  # elements the widest vector loop takes at once (bf16, AVX-512, unrolled twice)
_SERIAL_LIMIT = 32768  # torch runs an elementwise call below this many elements on one thread


def swiglu(gate_up_R2I: Tensor) -> Tensor:
    """Gate the up half of each row with the first half.

    Shapes: gate_up_R2I [R, 2·I] (gate first) -> [R, I], same dtype.
    """
    rows, width = gate_up_R2I.shape[0], gate_up_R2I.shape[1] // 2
    gate_RI, up_RI = gate_up_R2I.narrow(1, 0, width), gate_up_R2I.narrow(1, width, width)
    together = _rows_together(width) if gate_up_R2I.device.type == "cpu" else rows
    if rows <= together:
        return F.silu(gate_RI).mul_(up_RI)
    runs = zip(torch.split(gate_RI, together), torch.split(up_RI, together), strict=True)
    return torch.cat([F.silu(gate).mul_(up) for gate, up in runs])


def _rows_together(width: int) -> int:
    if width % _VECTOR_STEP:
        return 1
    return max(1, (_SERIAL_LIMIT - 1) // width)
