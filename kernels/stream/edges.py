"""What stands before the first layer and after the head: embedding, and the winning token (Triton)."""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def embed_kernel(
    token_ptr, table_ptr, norm_ptr, residual_ptr, h_ptr, sumsq_ptr, n_rows,
    D: tl.constexpr, BN: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """residual[r] = table[token[r]]; h and sumsq as `residual_kernel` leaves them. Grid: one program BN columns."""
    tile = tl.program_id(0)
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    let_next_start(PDL)
    await_previous(PDL)
    token = tl.load(token_ptr + rr, mask=rr < n_rows, other=0)
    inside = (rr < n_rows)[None, :] & (rn < D)[:, None]
    x = tl.load(table_ptr + token[None, :].to(tl.int64) * D + rn[:, None], mask=inside, other=0.0).to(
        tl.float32
    )
    norm = tl.load(norm_ptr + rn, mask=rn < D, other=0.0)
    at = rr[None, :] * D + rn[:, None]
    tl.store(residual_ptr + at, x, mask=inside)
    tl.store(h_ptr + at, (x * norm[:, None]).to(h_ptr.dtype.element_ty), mask=inside)
    tl.store(sumsq_ptr + tile * 16 + rr, tl.sum(x * x, axis=0))


@triton.jit
def winner_kernel(
    best_ptr, second_ptr, index_ptr, token_ptr, margin_ptr,
    TILES: tl.constexpr, TILES_P2: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """token[r] = the lowest id of the largest logit of row r over all tiles; margin[r] = largest − second largest."""
    row = tl.program_id(0)
    let_next_start(PDL)
    await_previous(PDL)
    rt = tl.arange(0, TILES_P2)
    inside = rt < TILES
    best = tl.load(best_ptr + rt * 16 + row, mask=inside, other=float("-inf"))
    second = tl.load(second_ptr + rt * 16 + row, mask=inside, other=float("-inf"))
    index = tl.load(index_ptr + rt * 16 + row, mask=inside, other=2147483647)
    top = tl.max(best, axis=0)
    token = tl.min(tl.where(best == top, index, 2147483647), axis=0)
    runner_up = tl.maximum(
        tl.max(tl.where(index == token, float("-inf"), best), axis=0),
        tl.max(tl.where(index == token, second, float("-inf")), axis=0),
    )
    tl.store(token_ptr + row, token.to(tl.int64))
    tl.store(margin_ptr + row, top - runner_up)
