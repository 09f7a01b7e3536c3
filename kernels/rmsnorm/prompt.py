"""residual += x, then h = residual / sqrt(mean(residual²) + eps) · weight, for the rows of a prompt chunk (Triton).

A row is one program's, summed in one order. The reference is `reference.rmsnorm` after an addition in fp32.
Source: Zhang & Sennrich 2019; addition and norm in one pass as in Liger-Kernel's fused_add_rms_norm.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def prompt_norm_kernel(
    x_ptr, token_ptr, residual_ptr, weight_ptr, h_ptr, place_ptr, eps,
    D: tl.constexpr, BLOCK: tl.constexpr, EMBED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program has a row. EMBED: x is the embedding, a row of it is its token's, and the residual stream starts there.

    Shapes: x [rows, D], or [V, D] where EMBED; token [rows] int64; residual [rows, D], weight [D] fp32; h [rows, D]; place
    [2] int32: (start, rows to compute). Grid: rows. BLOCK: D or the next power of two.
    """
    row = tl.program_id(0)
    await_previous(PDL)
    if row >= tl.load(place_ptr + 1):
        return
    column = tl.arange(0, BLOCK)
    inside = column < D
    source = row.to(tl.int64)
    if EMBED:
        source = tl.load(token_ptr + row)
    y = tl.load(x_ptr + source * D + column, mask=inside, other=0.0).to(tl.float32)
    at = row.to(tl.int64) * D + column
    if not EMBED:
        y += tl.load(residual_ptr + at, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    let_next_start(PDL)
    tl.store(residual_ptr + at, y, mask=inside)
    h = y * tl.rsqrt(tl.sum(y * y, axis=0) / D + eps) * weight
    tl.store(h_ptr + at, h.to(h_ptr.dtype.element_ty), mask=inside)


def embed_and_norm(
    ids: Tensor,
    table: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    place: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Start the residual stream with rows of the embedding; the first norm of it in `dtype`.

    Shapes: ids [N] int64; table [V, D]; residual [N, D] fp32, written; weight [D] fp32; place [2] int32: (start, rows),
    of which rows are computed and the others left as they are. Returns: [N, D].
    """
    return _launch(table, ids, residual, weight, eps, place, dtype)


def add_and_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, place: Tensor, dtype: torch.dtype
) -> Tensor:
    """Add x to the residual stream in place; the norm of it in `dtype`.

    Shapes: x [N, D] bf16 or fp32; residual [N, D] fp32; weight, place and result as in `embed_and_norm`.
    """
    return _launch(x, None, residual, weight, eps, place, dtype)


def _launch(
    x: Tensor,
    ids: Tensor | None,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    place: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    n_rows, width = residual.shape
    h = torch.empty(n_rows, width, dtype=dtype, device=residual.device)
    prompt_norm_kernel[(n_rows,)](
        x, ids if ids is not None else place, residual, weight, h, place, eps,
        D=width, BLOCK=triton.next_power_of_2(width), EMBED=ids is not None,
        num_warps=8, **launch_options(residual.device),
    )  # fmt: skip
    return h
