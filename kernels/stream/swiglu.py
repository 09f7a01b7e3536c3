"""gate and up in one matmul, gated on the way out. Source: Shazeer 2020. Reference: `reference.gate_up`."""

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
    BN: tl.constexpr, PARTS: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, KS: tl.constexpr,
    STAGES: tl.constexpr, AHEAD: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out = silu(g) · u with g, u = rows of h W_gateᵀ, h W_upᵀ, both times 1/rms. Grid: (tiles · PARTS, splits).

    Shapes: w [2N, K] bf16 or fp8 with scale [2N], gate rows first; h [16, K] alike with scale [K/GROUP, 16];
    sumsq [TILES_IN, 16] fp32; out [16, N], in fp8 with scale [N/TILE, 16]; TILE = BN · PARTS.
    A split has KS inputs, the last what is left.
    """
    TILE: tl.constexpr = BN * PARTS
    program, split = tl.program_id(0), tl.program_id(1)
    tile, part = program // PARTS, program % PARTS
    if PDL:
        prefetch_rows(w_ptr, program * BN, split * KS, K, KS, BN, BK, AHEAD)
        prefetch_rows(w_ptr, N + program * BN, split * KS, K, KS, BN, BK, AHEAD)
    both = tl.arange(0, 2 * BN)
    own = part * BN + both % BN
    column = tile * TILE + own
    rn = tile * TILE + tl.arange(0, TILE)
    gate_scale = channel_scale(w_ptr, w_scale_ptr, rn, N)
    up_scale = channel_scale(w_ptr, w_scale_ptr + N, rn, N)
    await_previous(PDL)
    squares = load_squares(sumsq_ptr, TILES_IN)
    acc = stream_tile(
        w_ptr,
        h_ptr,
        h_scale_ptr,
        both // BN * N + column,
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
    if SPLIT * PARTS > 1:
        rows = both // BN * TILE + own
        last = arrive_last(partial_ptr, counter_ptr, acc, rows, tile, split, 2 * TILE, SPLIT, PARTS)
    if last:
        y = acc
        if SPLIT * PARTS > 1:
            y = sum_partials(partial_ptr, tile, 2 * TILE, SPLIT)
        rr = tl.arange(0, 16)
        gate, up = halves(y * row_scale(squares, eps, K), TILE)
        gate *= gate_scale
        up *= up_scale
        inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
        gated = tl.where(inside, gate / (1.0 + tl.exp(-gate)) * up, 0.0)
        store_rows(gated, out_ptr, out_scale_ptr, rr[None, :] * N + rn[:, None], inside, tile)
