"""q, k, v of up to 16 rows in one matmul, finished in place: bias, head norms, RoPE, KV append.

Legend: D head size, HQ query heads, HK KV heads, K inputs. A head is a tile of D weight rows; a program owns D / PARTS of
them in one split of K (KS inputs), and the last to arrive finishes the head. K and V caches have strides of their own.
Shapes: w [(HQ + 2·HK)·D, K] bf16 or fp8 with scale [(HQ + 2·HK)·D], rows in the order q, k, v; h [16, K] alike with scale
[K/GROUP, 16]; sumsq [TILES_IN, 16], bias [(HQ + 2·HK)·D], norms of q and k heads [D]; q [16, HQ, D]; k, v [slots, HK, D];
cos, sin [positions, D/2] fp32.
Source: Su et al. 2021 (RoPE, halves paired as in Hugging Face's Llama); Qwen3 technical report (head norms).
Reference: `reference.qkv`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import (
    arrive_last,
    channel_scale,
    halves,
    load_squares,
    row_scale,
    stream_tile,
    sum_partials,
)
from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_rows


@triton.jit(do_not_specialize=["n_rows"])
def qkv_kernel(
    w_ptr, w_scale_ptr, h_ptr, h_scale_ptr, sumsq_ptr, bias_ptr, q_norm_ptr, k_norm_ptr, cos_ptr, sin_ptr,
    position_ptr, slot_ptr,
    q_ptr, k_ptr, v_ptr, partial_ptr, counter_ptr, n_rows, eps, k_head, k_slot, v_head, v_slot,
    K: tl.constexpr, HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, TILES_IN: tl.constexpr,
    PARTS: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, KS: tl.constexpr,
    STAGES: tl.constexpr, AHEAD: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Row r is the token at position[r]; its K and V go to slot[r]. Grid: (heads · PARTS, splits).

    x = (h Wᵀ) / rms (+ bias); q and k heads: x / sqrt(mean(x²) + eps) · norm where HAS_NORM, then turned,
    y1 = x1·cos − x2·sin, y2 = x2·cos + x1·sin (x1, x2: first and second half of a head).
    Shapes: position, slot [n_rows] int32 or longer, one table where rows follow each other on the main line.
    """
    BN: tl.constexpr = D // PARTS
    program, split = tl.program_id(0), tl.program_id(1)
    head, part = program // PARTS, program % PARTS
    if PDL:
        prefetch_rows(w_ptr, program * BN, split * KS, K, KS, BN, BK, AHEAD)
    N: tl.constexpr = (HQ + 2 * HK) * D
    HALF: tl.constexpr = D // 2
    own = part * BN + tl.arange(0, BN)
    rd = head * D + own
    # What the ending needs is asked for before the weights stream.
    rh = tl.arange(0, HALF)
    rr = tl.arange(0, 16)
    row = head * D + rh
    low_scale = channel_scale(w_ptr, w_scale_ptr, row, N)
    high_scale = channel_scale(w_ptr, w_scale_ptr, row + HALF, N)
    if HAS_BIAS:
        low_bias = tl.load(bias_ptr + row).to(tl.float32)[:, None]
        high_bias = tl.load(bias_ptr + row + HALF).to(tl.float32)[:, None]
    if HAS_NORM:
        norm_ptr = q_norm_ptr if head < HQ else k_norm_ptr
        low_norm = tl.load(norm_ptr + rh)[:, None]
        high_norm = tl.load(norm_ptr + HALF + rh)[:, None]
    # Both were set before the pass began, which whoever ran before has waited for.
    position = tl.load(position_ptr + rr, mask=rr < n_rows, other=0)
    slots = tl.load(slot_ptr + rr, mask=rr < n_rows, other=0)[None, :].to(tl.int64)
    inside = (rr < n_rows)[None, :]
    angle = position[None, :] * HALF + rh[:, None]
    cos = tl.load(cos_ptr + angle, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + angle, mask=inside, other=0.0)
    await_previous(PDL)
    squares = load_squares(sumsq_ptr, TILES_IN)
    acc = stream_tile(
        w_ptr, h_ptr, h_scale_ptr, rd, rd < N, split * KS, n_rows, K, KS, BN, BK, GROUP, STAGES, True
    )
    let_next_start(PDL)
    last = True
    if SPLIT * PARTS > 1:
        last = arrive_last(partial_ptr, counter_ptr, acc, own, head, split, D, SPLIT, PARTS)
    if last:
        y = acc
        if SPLIT * PARTS > 1:
            y = sum_partials(partial_ptr, head, D, SPLIT)
        low, high = halves(y * row_scale(squares, eps, K), HALF)
        low *= low_scale
        high *= high_scale
        if HAS_BIAS:
            low += low_bias
            high += high_bias
        if HAS_NORM and head < HQ + HK:
            rms = tl.rsqrt((tl.sum(low * low, axis=0) + tl.sum(high * high, axis=0)) / D + eps)[None, :]
            low *= rms * low_norm
            high *= rms * high_norm
        if head < HQ + HK:
            turned = low * cos - high * sin
            high = high * cos + low * sin
            low = turned
        if head < HQ:
            out = q_ptr + rr[None, :] * (HQ * D) + head * D + rh[:, None]
        elif head < HQ + HK:
            out = k_ptr + slots * k_slot + (head - HQ) * k_head + rh[:, None]
        else:
            out = v_ptr + slots * v_slot + (head - HQ - HK) * v_head + rh[:, None]
        tl.store(out, low.to(q_ptr.dtype.element_ty), mask=inside)
        tl.store(out + HALF, high.to(q_ptr.dtype.element_ty), mask=inside)
