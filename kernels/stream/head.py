"""The vocabulary head: the winning token of each row, by how much it won and how likely it is, without writing logits.

A tile leaves its best logit b_t and its mass m_t = Σ exp(logit − b_t); the winner's probability is
1 ÷ Σ_t m_t · exp(b_t − b), b the best of all tiles. Tiles are summed in an order of their own, whatever the rows.
Source: the merge is that of online softmax, Milakov and Gimelshein 2018. Reference: `reference.head`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import channel_scale, load_squares, row_scale, stream_tile
from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_rows, stamp

NO_TOKEN = tl.constexpr(2147483647)


@triton.jit(do_not_specialize=["n_rows"])
def head_kernel(
    w_ptr, w_scale_ptr, h_ptr, h_scale_ptr, sumsq_ptr, best_ptr, second_ptr, index_ptr, mass_ptr, logits_ptr,
    n_rows, eps,
    N: tl.constexpr, K: tl.constexpr, TILES_IN: tl.constexpr, WRITE: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr,
    AHEAD: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The two best logits of each tile of the vocabulary, where the best is, and the tile's mass; ties go to the lower id.

    logits = (h Wᵀ) / rms of the row. Grid: tiles of BN.
    Shapes: w [N, K] bf16 or fp8 with scale [N]; h [16, K] alike with scale [K/GROUP, 16]; sumsq [TILES_IN, 16] fp32;
    best, second, mass [tiles, 16] fp32; index [tiles, 16] int32; logits [16, N] fp32 where WRITE.
    """
    tile = tl.program_id(0)
    if PDL:
        prefetch_rows(w_ptr, tile * BN, 0, K, K, BN, BK, AHEAD)
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    scale = channel_scale(w_ptr, w_scale_ptr, rn, N)
    await_previous(PDL)
    squares = load_squares(sumsq_ptr, TILES_IN)
    acc = stream_tile(
        w_ptr, h_ptr, h_scale_ptr, rn, rn < N, 0, n_rows, K, K, BN, BK, GROUP, STAGES, N % BN == 0
    )
    let_next_start(PDL)
    acc *= row_scale(squares, eps, K) * scale
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
    tl.store(mass_ptr + at, tl.sum(tl.exp(acc - best[None, :]), axis=0))


@triton.jit
def leader(best_ptr, second_ptr, index_ptr, at, inside):
    """The best value of each tile at `at`, the best of all, its lowest index, and the second best of all."""
    best = tl.load(best_ptr + at, mask=inside, other=float("-inf"))
    second = tl.load(second_ptr + at, mask=inside, other=float("-inf"))
    index = tl.load(index_ptr + at, mask=inside, other=NO_TOKEN)
    top = tl.max(best, axis=0)
    token = tl.min(tl.where(best == top, index, NO_TOKEN), axis=0)
    runner_up = tl.maximum(
        tl.max(tl.where(index == token, float("-inf"), best), axis=0),
        tl.max(tl.where(index == token, second, float("-inf")), axis=0),
    )
    return best, top, token, runner_up


@triton.jit(do_not_specialize=["first"])
def winner_kernel(
    best_ptr, second_ptr, index_ptr, mass_ptr, name_ptr, token_ptr, margin_ptr, prob_ptr, stamp_ptr, first,
    TILES: tl.constexpr, NAMED: tl.constexpr, STAMP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """token[i] = the lowest id of the largest logit of row first + i; margin[i] = largest − second largest; prob[i].

    prob is the winner's probability, as above. NAMED: token[i] = name[that id]. stamp[1] = when. Grid: rows from `first`.
    Shapes: best, second, mass [tiles, 16] fp32 and index [tiles, 16] int32, as `head_kernel` leaves them; name [N] int64;
    token [16] int64; margin, prob [16] fp32; stamp [2] int64.
    """
    at = tl.program_id(0)
    row = first + at
    let_next_start(PDL)
    await_previous(PDL)
    rt = tl.arange(0, triton.next_power_of_2(TILES))
    inside = rt < TILES
    best, top, token, runner_up = leader(best_ptr, second_ptr, index_ptr, rt * 16 + row, inside)
    mass = tl.load(mass_ptr + rt * 16 + row, mask=inside, other=0.0)
    if NAMED:
        tl.store(token_ptr + at, tl.load(name_ptr + token))
    else:
        tl.store(token_ptr + at, token.to(tl.int64))
    tl.store(margin_ptr + at, top - runner_up)
    tl.store(prob_ptr + at, 1.0 / tl.sum(mass * tl.exp(best - top), axis=0))
    if at == 0:
        stamp(stamp_ptr + 1, STAMP)
