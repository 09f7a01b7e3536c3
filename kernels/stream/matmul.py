"""y = x Wᵀ for up to 16 rows, read at memory speed, with the same bits for every row count.

Legend: R = 16 rows (padded), N outputs, K inputs. W is the left operand of the matrix instruction, so that 64 or more of
its rows fill wgmma's M and the 16 padded rows of x its N: every row count runs the same instructions in the same order.
A tile of outputs that end together (they share a scale, or a head) may be the work of several programs: some of its rows
each, split along K. The one that arrives last adds the partial sums in order of K, whoever arrives when.

RMSNorm never runs by itself: whoever writes the residual stream also writes h = residual · weight of the next norm and the
sums of squares of its own columns; the matmul that reads h multiplies its result by 1/rms of the row.

In fp8 an output channel of W has one scale, and GROUP inputs of a row of x have one (what x's producer rounded together).
Every GROUP products are summed by the matrix unit from zero, then scaled and added in fp32.

Source: the split-K reduction by last arrival is CUDA's threadFenceReduction sample; fp8 promotion: DeepSeek-V3 (2024).
"""

from __future__ import annotations

import triton
import triton.language as tl

E4M3_MAX = tl.constexpr(448.0)


@triton.jit
def stream_tile(
    w_ptr, x_ptr, x_scale_ptr, rn, there, k_first, n_rows, K: tl.constexpr, KS: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """acc [BN, 16] fp32 of weight rows rn [BN] over k_first … k_first+KS-1, and no further than K.

    Rows not `there` are zero, WHOLE: all are.
    """
    FP8: tl.constexpr = w_ptr.dtype.element_ty.is_fp8()
    rr = tl.arange(0, 16)
    rk = k_first + tl.arange(0, GROUP)
    w_tile = w_ptr + rn[:, None].to(tl.int64) * K + rk[None, :]
    x_tile = x_ptr + rr[:, None] * K + rk[None, :]
    acc = tl.zeros((BN, 16), tl.float32)
    scale = tl.load(x_scale_ptr + k_first // GROUP * 16 + rr) if FP8 else acc
    ks = KS if K % KS == 0 else tl.minimum(KS, K - k_first)
    for first in tl.range(0, ks, BK, num_stages=STAGES):
        for k in tl.static_range(0, BK, GROUP):
            at = first + k
            if K % BK == 0 and WHOLE:
                w = tl.load(w_tile + at, eviction_policy="evict_first")
                x = tl.load(x_tile + at, mask=(rr < n_rows)[:, None], other=0.0)
            else:
                inside = (at + tl.arange(0, GROUP) < ks)[None, :]
                w = tl.load(
                    w_tile + at, mask=there[:, None] & inside, other=0.0, eviction_policy="evict_first"
                )
                x = tl.load(x_tile + at, mask=(rr < n_rows)[:, None] & inside, other=0.0)
            if FP8:
                after = tl.minimum(at + GROUP, ks - 1)  # on its way while this group's products run
                next_scale = tl.load(x_scale_ptr + (k_first + after) // GROUP * 16 + rr)
                acc += tl.dot(w, x.T, max_num_imprecise_acc=GROUP) * scale[None, :]
                scale = next_scale
            else:
                acc = tl.dot(w, x.T, acc, input_precision="ieee")
    return acc


@triton.jit
def halves(acc, BN: tl.constexpr):
    """The first and the last BN rows of acc [2·BN, 16]."""
    return tl.split(tl.permute(tl.reshape(acc, (2, BN, 16)), (1, 2, 0)))


@triton.jit
def arrive_last(
    partial_ptr, counter_ptr, acc, rows, tile, split,
    ROWS: tl.constexpr, SPLIT: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Leave a partial sum of some `rows` of a tile's ROWS; True for the program that completes the tile."""
    at = (tile * SPLIT + split) * ROWS * 16
    tl.store(partial_ptr + at + rows[:, None] * 16 + tl.arange(0, 16)[None, :], acc)
    tl.debug_barrier()
    arrived = tl.atomic_add(counter_ptr + tile, 1, sem="acq_rel", scope="gpu")
    last = arrived == SPLIT * PARTS - 1
    if last:
        tl.store(counter_ptr + tile, 0)
    return last


@triton.jit
def sum_partials(partial_ptr, tile, ROWS: tl.constexpr, SPLIT: tl.constexpr):
    """A tile's partial sums, added in order of K: [ROWS, 16]."""
    offsets = tl.arange(0, ROWS)[:, None] * 16 + tl.arange(0, 16)[None, :]
    acc = tl.zeros((ROWS, 16), tl.float32)
    for split in tl.static_range(SPLIT):
        acc += tl.load(partial_ptr + (tile * SPLIT + split) * ROWS * 16 + offsets, cache_modifier=".cg")
    return acc


@triton.jit
def load_squares(sumsq_ptr, TILES: tl.constexpr):
    """Sums of squares of a row by tile [TILES, 16]: asked for early, they are there when `row_scale` needs them."""
    rt = tl.arange(0, triton.next_power_of_2(TILES))
    at = rt[:, None] * 16 + tl.arange(0, 16)[None, :]
    return tl.load(sumsq_ptr + at, mask=(rt < TILES)[:, None], other=0.0)


@triton.jit
def row_scale(squares, eps, D: tl.constexpr):
    """1/rms of each row, [1, 16]."""
    return tl.rsqrt(tl.sum(squares, axis=0) / D + eps)[None, :]


@triton.jit
def channel_scale(w_ptr, w_scale_ptr, rn, N: tl.constexpr):
    """Scales of weight rows rn, [BN, 1]: ones but for fp8."""
    if w_ptr.dtype.element_ty.is_fp8():
        return tl.load(w_scale_ptr + rn, mask=rn < N, other=0.0)[:, None]
    return tl.full((rn.shape[0], 1), 1.0, tl.float32)


@triton.jit
def scaled_to_e4m3(y):
    """y [N, C] divided by a scale for each column, which takes its largest value to e4m3's largest, and the scales [C]."""
    scale = tl.maximum(tl.max(tl.abs(y), axis=0), 1e-12) / E4M3_MAX
    return y / scale[None, :], scale


@triton.jit
def store_rows(y, out_ptr, scale_ptr, at, inside, group):
    """Store y [TILE, 16] in out's format at `at`; in fp8 all TILE values of a row share the scale kept at [group, 16].

    y is zero outside `inside`.
    """
    if out_ptr.dtype.element_ty.is_fp8():
        y, scale = scaled_to_e4m3(y)
        tl.store(scale_ptr + group * 16 + tl.arange(0, 16), scale)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)
