"""y = x Wᵀ for up to 16 rows, read at memory speed, with the same bits for every row count.

Legend: R = 16 rows (padded), N outputs, K inputs. W is the left operand of the matrix instruction, so that 64 or more of
its rows fill wgmma's M and the 16 padded rows of x its N: every row count runs the same instructions in the same order.
Split along K, the program that arrives last adds the partial sums in order of K, whoever arrives when.

RMSNorm never runs by itself: whoever writes the residual stream also writes h = bf16(residual · weight of the next norm)
and the sums of squares of its own columns; the matmul that reads h multiplies its result by 1/rms of the row.

Source: the split-K reduction by last arrival is CUDA's threadFenceReduction sample.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_rows

ROWS = 16


@triton.jit
def stream_tile(
    w_ptr, x_ptr, n_first, k_first, n_rows, N: tl.constexpr, K: tl.constexpr, KS: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """acc [BN, 16] fp32 of weight rows n_first … over k_first … k_first+KS-1."""
    rn = n_first + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    rk = k_first + tl.arange(0, BK)
    w_tile = w_ptr + rn[:, None].to(tl.int64) * K + rk[None, :]
    x_tile = x_ptr + rr[:, None] * K + rk[None, :]
    acc = tl.zeros((BN, 16), tl.float32)
    for k in tl.range(0, KS, BK, num_stages=STAGES):
        if KS % BK == 0 and N % BN == 0:
            w = tl.load(w_tile + k, eviction_policy="evict_first")
            x = tl.load(x_tile + k, mask=(rr < n_rows)[:, None], other=0.0)
        else:
            inside = k + tl.arange(0, BK) < KS
            w = tl.load(
                w_tile + k, mask=(rn < N)[:, None] & inside[None, :], other=0.0, eviction_policy="evict_first"
            )
            x = tl.load(x_tile + k, mask=(rr < n_rows)[:, None] & inside[None, :], other=0.0)
        acc = tl.dot(w, x.T, acc, input_precision="ieee")
    return acc


@triton.jit
def arrive_last(partial_ptr, counter_ptr, acc, tile, split, SPLIT: tl.constexpr, BN: tl.constexpr):
    """Leave a partial sum; True for the program that completes its tile."""
    at = (tile * SPLIT + split) * BN * 16
    offsets = tl.arange(0, BN)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(partial_ptr + at + offsets, acc)
    tl.debug_barrier()
    arrived = tl.atomic_add(counter_ptr + tile, 1, sem="acq_rel", scope="gpu")
    last = arrived == SPLIT - 1
    if last:
        tl.store(counter_ptr + tile, 0)
    return last


@triton.jit
def sum_partials(partial_ptr, tile, first, SPLIT: tl.constexpr, BN: tl.constexpr, COUNT: tl.constexpr):
    """Rows first … first+COUNT-1 of a tile's partial sums, added in order of K: [COUNT, 16]."""
    offsets = (first + tl.arange(0, COUNT))[:, None] * 16 + tl.arange(0, 16)[None, :]
    acc = tl.zeros((COUNT, 16), tl.float32)
    for split in tl.static_range(SPLIT):
        acc += tl.load(partial_ptr + (tile * SPLIT + split) * BN * 16 + offsets, cache_modifier=".cg")
    return acc


@triton.jit
def row_scale(sumsq_ptr, eps, TILES: tl.constexpr, TILES_P2: tl.constexpr, D: tl.constexpr):
    """1/rms of each row from the per-tile sums of squares [TILES, 16]."""
    rt = tl.arange(0, TILES_P2)
    rr = tl.arange(0, 16)
    parts = tl.load(sumsq_ptr + rt[:, None] * 16 + rr[None, :], mask=(rt < TILES)[:, None], other=0.0)
    return tl.rsqrt(tl.sum(parts, axis=0) / D + eps)


@triton.jit
def residual_kernel(
    w_ptr, x_ptr, bias_ptr, residual_ptr, norm_ptr, h_ptr, sumsq_ptr, partial_ptr, counter_ptr, n_rows,
    N: tl.constexpr, K: tl.constexpr, HAS_BIAS: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr, STAGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """residual += x Wᵀ (+ bias); h = bf16(residual · norm); sumsq[tile] = Σ residual² over the tile's columns.

    Shapes: w [N, K] bf16; x [16, K] bf16; residual [16, N] fp32; norm [N] fp32; h [16, N] bf16; sumsq [N/BN, 16] fp32.
    """
    tile, split = tl.program_id(0), tl.program_id(1)
    KS: tl.constexpr = K // SPLIT
    let_next_start(PDL)
    if PDL:
        prefetch_rows(w_ptr, tile * BN, split * KS, K, KS, BN, BK)
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
    at = rr[None, :] * N + rn[:, None]
    norm = tl.load(norm_ptr + rn, mask=rn < N, other=0.0)
    await_previous(PDL)
    before = tl.load(residual_ptr + at, mask=inside, other=0.0)  # on its way while the weights stream
    acc = stream_tile(w_ptr, x_ptr, tile * BN, split * KS, n_rows, N, K, KS, BN, BK, STAGES)
    if SPLIT > 1:
        if not arrive_last(partial_ptr, counter_ptr, acc, tile, split, SPLIT, BN):
            return
        acc = sum_partials(partial_ptr, tile, 0, SPLIT, BN, BN)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[:, None]
    y = before + acc
    tl.store(residual_ptr + at, y, mask=inside)
    tl.store(h_ptr + at, (y * norm[:, None]).to(h_ptr.dtype.element_ty), mask=inside)
    y = tl.where((rn < N)[:, None], y, 0.0)
    tl.store(sumsq_ptr + tile * 16 + rr, tl.sum(y * y, axis=0))


@triton.jit
def swiglu_kernel(
    w_ptr, h_ptr, sumsq_ptr, out_ptr, n_rows, eps,
    N: tl.constexpr, K: tl.constexpr, TILES_IN: tl.constexpr, TILES_P2: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out = silu(g) · u with g, u = rows of h W_gateᵀ, h W_upᵀ, both times 1/rms.

    Shapes: w [2N, K] bf16, gate rows first; h [16, K] bf16; out [16, N] bf16.
    """
    tile = tl.program_id(0)
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    rk = tl.arange(0, BK)
    gate_tile = w_ptr + rn[:, None].to(tl.int64) * K + rk[None, :]
    up_tile = gate_tile + N * K
    let_next_start(PDL)
    if PDL:
        prefetch_rows(w_ptr, tile * BN, 0, K, K, BN, BK)
        prefetch_rows(w_ptr, N + tile * BN, 0, K, K, BN, BK)
    await_previous(PDL)
    scale = row_scale(sumsq_ptr, eps, TILES_IN, TILES_P2, K)[None, :]
    h_tile = h_ptr + rr[:, None] * K + rk[None, :]
    gate = tl.zeros((BN, 16), tl.float32)
    up = tl.zeros((BN, 16), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        inside = k + rk < K
        mask = (rn < N)[:, None] & inside[None, :]
        h = tl.load(h_tile + k, mask=(rr < n_rows)[:, None] & inside[None, :], other=0.0)
        w_gate = tl.load(gate_tile + k, mask=mask, other=0.0, eviction_policy="evict_first")
        w_up = tl.load(up_tile + k, mask=mask, other=0.0, eviction_policy="evict_first")
        gate = tl.dot(w_gate, h.T, gate, input_precision="ieee")
        up = tl.dot(w_up, h.T, up, input_precision="ieee")
    gate, up = gate * scale, up * scale
    y = gate / (1.0 + tl.exp(-gate)) * up
    inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
    tl.store(out_ptr + rr[None, :] * N + rn[:, None], y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def head_kernel(
    w_ptr, h_ptr, sumsq_ptr, best_ptr, second_ptr, index_ptr, logits_ptr, n_rows, eps,
    N: tl.constexpr, K: tl.constexpr, TILES_IN: tl.constexpr, TILES_P2: tl.constexpr, WRITE: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The best and second-best logit of each tile of the vocabulary, and where the best is; ties go to the lower id.

    Shapes: w [N, K] bf16; h [16, K] bf16; best, second, index [tiles, 16]; logits [16, N] fp32 where WRITE.
    """
    tile = tl.program_id(0)
    let_next_start(PDL)
    if PDL:
        prefetch_rows(w_ptr, tile * BN, 0, K, K, BN, BK)
    await_previous(PDL)
    scale = row_scale(sumsq_ptr, eps, TILES_IN, TILES_P2, K)[None, :]
    acc = stream_tile(w_ptr, h_ptr, tile * BN, 0, n_rows, N, K, K, BN, BK, STAGES) * scale
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    if WRITE:
        inside = (rn < N)[:, None] & (rr < n_rows)[None, :]
        tl.store(logits_ptr + rr[None, :].to(tl.int64) * N + rn[:, None], acc, mask=inside)
    acc = tl.where((rn < N)[:, None], acc, float("-inf"))
    best = tl.max(acc, axis=0)
    index = tl.min(tl.where(acc == best[None, :], rn[:, None], N), axis=0)
    second = tl.max(tl.where(rn[:, None] == index[None, :], float("-inf"), acc), axis=0)
    at = tile * 16 + rr
    tl.store(best_ptr + at, best)
    tl.store(second_ptr + at, second)
    tl.store(index_ptr + at, index)
