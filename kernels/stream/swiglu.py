"""gate and up in one matmul, gated on the way out."""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import (
    channel_scale,
    halves,
    load_squares,
    row_scale,
    store_rows,
    stream_tile,
)
from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_rows


@triton.jit
def swiglu_unit(
    tile, w_ptr, w_scale_ptr, h_ptr, h_scale_ptr, sumsq_ptr, out_ptr, out_scale_ptr, n_rows, eps,
    N: tl.constexpr, K: tl.constexpr, TILES_IN: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile of: out = silu(g) · u with g, u = rows of h W_gateᵀ, h W_upᵀ, both times 1/rms.

    Shapes: w [2N, K] bf16 or fp8 with scale [2N], gate rows first; h [16, K] alike with scale [K/BK, 16];
    out [16, N], in fp8 with scale [N/BN, 16].
    """
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    both = tl.arange(0, 2 * BN)
    column = tile * BN + both % BN
    row = both // BN * N + column
    squares = load_squares(sumsq_ptr, TILES_IN)
    acc = stream_tile(
        w_ptr, h_ptr, h_scale_ptr, row, column < N, 0, n_rows, K, K, 2 * BN, BK, STAGES, N % BN == 0
    )
    scale = row_scale(squares, eps, K)
    gate, up = halves(acc, BN)
    gate *= scale * channel_scale(w_ptr, w_scale_ptr, rn, N)
    up *= scale * channel_scale(w_ptr, w_scale_ptr + N, rn, N)
    inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
    y = tl.where(inside, gate / (1.0 + tl.exp(-gate)) * up, 0.0)
    store_rows(y, out_ptr, out_scale_ptr, rr[None, :] * N + rn[:, None], inside, tile)


@triton.jit(do_not_specialize=["n_rows"])
def swiglu_kernel(
    w_ptr, w_scale_ptr, h_ptr, h_scale_ptr, sumsq_ptr, out_ptr, out_scale_ptr, n_rows, eps,
    N: tl.constexpr, K: tl.constexpr, TILES_IN: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """`swiglu_unit` over a grid of tiles."""
    tile = tl.program_id(0)
    let_next_start(PDL)
    if PDL:
        prefetch_rows(w_ptr, tile * BN, 0, K, K, BN, BK)
        prefetch_rows(w_ptr, N + tile * BN, 0, K, K, BN, BK)
    await_previous(PDL)
    swiglu_unit(
        tile, w_ptr, w_scale_ptr, h_ptr, h_scale_ptr, sumsq_ptr, out_ptr, out_scale_ptr, n_rows, eps,
        N, K, TILES_IN, BN, BK, STAGES,
    )  # fmt: skip
