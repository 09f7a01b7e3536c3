"""y = silu(gate) · up, silu(g) = g / (1 + exp(−g)), for the rows of a prompt chunk, rounded once (Triton).

The reference is `reference.swiglu`, which rounds silu(gate) by itself. Source: Shazeer 2020.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start

_COLUMNS = 2048  # of one program


@triton.jit
def prompt_swiglu_kernel(x_ptr, out_ptr, place_ptr, N: tl.constexpr, BN: tl.constexpr, PDL: tl.constexpr):
    """A program has BN columns of a row. Grid: (column tiles, rows).

    Shapes: x [rows, 2N], gate first; out [rows, N]; place [2] int32: (start, rows to compute).
    """
    tile, row = tl.program_id(0), tl.program_id(1)
    await_previous(PDL)
    if row >= tl.load(place_ptr + 1):
        return
    column = tile * BN + tl.arange(0, BN)
    inside = column < N
    x_ptr += row.to(tl.int64) * (2 * N)
    gate = tl.load(x_ptr + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + N + column, mask=inside, other=0.0).to(tl.float32)
    let_next_start(PDL)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + row.to(tl.int64) * N + column, y.to(out_ptr.dtype.element_ty), mask=inside)


def gate(x: Tensor, place: Tensor, dtype: torch.dtype) -> Tensor:
    """Gate the up half of each row with its first half.

    Shapes: x [R, 2·N] (gate first), contiguous; place [2] int32: (start, rows), of which rows are computed.
    Returns: [R, N] in `dtype`.
    """
    n_rows, n = x.shape[0], x.shape[1] // 2
    out = torch.empty(n_rows, n, dtype=dtype, device=x.device)
    columns = min(_COLUMNS, triton.next_power_of_2(n))
    prompt_swiglu_kernel[(-(-n // columns), n_rows)](
        x, out, place, N=n, BN=columns, num_warps=4, **launch_options(x.device)
    )
    return out
