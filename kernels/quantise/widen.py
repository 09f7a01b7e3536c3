"""e4m3 numbers as bf16, which holds each of them exactly (Triton).

The reference is torch's own conversion, which reads and writes at a fifth of what memory can.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start

_NUMBERS = 8192  # of one program


@triton.jit
def widen_kernel(x_ptr, out_ptr, n_numbers, BN: tl.constexpr, PDL: tl.constexpr):
    """A program has BN numbers. Grid: (tiles). Shapes: x [n_numbers] e4m3; out [n_numbers] bf16."""
    at = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    inside = at < n_numbers
    x = tl.load(x_ptr + at, mask=inside).to(tl.bfloat16)
    await_previous(PDL)  # it may read what lay at `out` before
    let_next_start(PDL)
    tl.store(out_ptr + at, x, mask=inside)


def widen(x: Tensor) -> Tensor:
    """`x` in bf16. Shapes: any, contiguous, e4m3."""
    out = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)
    grid = (-(-x.numel() // _NUMBERS),)
    widen_kernel[grid](x, out, x.numel(), BN=_NUMBERS, num_warps=8, **launch_options(x.device))
    return out
