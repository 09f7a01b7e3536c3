"""o and down: a matmul that ends in the residual stream and prepares the next norm. Reference: `reference.add_product`."""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import arrive_last, channel_scale, store_rows, stream_tile, sum_partials
from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_rows


@triton.jit(do_not_specialize=["n_rows"])
def residual_kernel(
    w_ptr, w_scale_ptr, x_ptr, x_scale_ptr, bias_ptr, residual_ptr, norm_ptr, h_ptr, h_scale_ptr, sumsq_ptr,
    partial_ptr, counter_ptr, n_rows,
    N: tl.constexpr, K: tl.constexpr, HAS_BIAS: tl.constexpr,
    BN: tl.constexpr, PARTS: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, KS: tl.constexpr,
    STAGES: tl.constexpr, AHEAD: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """residual += x Wᵀ (+ bias); h = residual · norm; sumsq[tile] = Σ residual² over it. Grid: (tiles · PARTS, splits).

    Shapes: w [N, K] bf16 or fp8 with scale [N]; x [16, K] alike with scale [K/GROUP, 16]; residual [16, N], norm [N] fp32;
    h [16, N], in fp8 with scale [N/TILE, 16]; sumsq [N/TILE, 16] fp32; TILE = BN · PARTS.
    A split has KS inputs, the last what is left.
    """
    TILE: tl.constexpr = BN * PARTS
    program, split = tl.program_id(0), tl.program_id(1)
    tile, part = program // PARTS, program % PARTS
    if PDL:
        prefetch_rows(w_ptr, program * BN, split * KS, K, KS, BN, BK, AHEAD)
    rn = tile * TILE + tl.arange(0, TILE)
    rr = tl.arange(0, 16)
    inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
    at = rr[None, :] * N + rn[:, None]
    # What the ending needs is asked for before the weights stream.
    norm = tl.load(norm_ptr + rn, mask=rn < N, other=0.0)
    scale = channel_scale(w_ptr, w_scale_ptr, rn, N)
    bias = tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32) if HAS_BIAS else norm
    own = part * BN + tl.arange(0, BN)
    row = tile * TILE + own
    await_previous(PDL)
    before = tl.load(residual_ptr + at, mask=inside, other=0.0)
    acc = stream_tile(
        w_ptr, x_ptr, x_scale_ptr, row, row < N, split * KS, n_rows, K, KS, BN, BK, GROUP, STAGES, N % BN == 0
    )
    let_next_start(PDL)
    last = True
    if SPLIT * PARTS > 1:
        last = arrive_last(partial_ptr, counter_ptr, acc, own, tile, split, TILE, SPLIT, PARTS)
    if last:
        y = acc
        if SPLIT * PARTS > 1:
            y = sum_partials(partial_ptr, tile, TILE, SPLIT)
        y *= scale
        if HAS_BIAS:
            y += bias[:, None]
        y = tl.where(inside, before + y, 0.0)
        tl.store(residual_ptr + at, y, mask=inside)
        store_rows(y * norm[:, None], h_ptr, h_scale_ptr, at, inside, tile)
        tl.store(sumsq_ptr + tile * 16 + rr, tl.sum(y * y, axis=0))
