"""gate and up in one matmul, gated on the way out."""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import (
    arrive_last,
    channel_scale,
    halves,
    load_squares,
    row_scale,
    store_rows,
    stream_tile,
    sum_partials,
)
from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_rows


@triton.jit(do_not_specialize=["n_rows"])
def swiglu_kernel(
    w_ptr, w_scale_ptr, h_ptr, h_scale_ptr, sumsq_ptr, out_ptr, out_scale_ptr, partial_ptr, counter_ptr, n_rows, eps,
    N: tl.constexpr, K: tl.constexpr, TILES_IN: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, STAGES: tl.constexpr,
    AHEAD: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out = silu(g) · u with g, u = rows of h W_gateᵀ, h W_upᵀ, both times 1/rms. Grid: (tiles, splits).

    Shapes: w [2N, K] bf16 or fp8 with scale [2N], gate rows first; h [16, K] alike with scale [K/GROUP, 16];
    out [16, N], in fp8 with scale [N/BN, 16].
    """
    tile, split = tl.program_id(0), tl.program_id(1)
    KS: tl.constexpr = K // SPLIT
    if PDL:
        prefetch_rows(w_ptr, tile * BN, split * KS, K, KS, BN, BK, AHEAD)
        prefetch_rows(w_ptr, N + tile * BN, split * KS, K, KS, BN, BK, AHEAD)
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    both = tl.arange(0, 2 * BN)
    column = tile * BN + both % BN
    row = both // BN * N + column
    await_previous(PDL)
    squares = load_squares(sumsq_ptr, TILES_IN)
    acc = stream_tile(
        w_ptr,
        h_ptr,
        h_scale_ptr,
        row,
        column < N,
        split * KS,
        n_rows,
        K,
        KS,
        2 * BN,
        BK,
        GROUP,
        STAGES,
        N % BN == 0,
    )
    let_next_start(PDL)
    last = True
    if SPLIT > 1:
        last = arrive_last(partial_ptr, counter_ptr, acc, tile, split, SPLIT, 2 * BN)
    if last:
        if SPLIT > 1:
            acc = sum_partials(partial_ptr, tile, SPLIT, 2 * BN)
        gate, up = halves(acc * row_scale(squares, eps, K), BN)
        gate *= channel_scale(w_ptr, w_scale_ptr, rn, N)
        up *= channel_scale(w_ptr, w_scale_ptr + N, rn, N)
        inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
        y = tl.where(inside, gate / (1.0 + tl.exp(-gate)) * up, 0.0)
        store_rows(y, out_ptr, out_scale_ptr, rr[None, :] * N + rn[:, None], inside, tile)
