"""Embedding: starts the residual stream. Reference: `reference.embed`."""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import store_rows
from specmon.kernels.stream.overlap import await_previous, let_next_start, stamp


@triton.jit(do_not_specialize=["n_rows"])
def embed_kernel(
    token_ptr, table_ptr, norm_ptr, residual_ptr, h_ptr, h_scale_ptr, sumsq_ptr, stamp_ptr, n_rows,
    D: tl.constexpr, BN: tl.constexpr, STAMP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """residual[r] = table[token[r]], with h and sumsq as `residual_kernel` leaves them; stamp[0] = when. Grid: tiles.

    Shapes: token [16] int64; table [V, D]; norm [D], residual [16, D] fp32; h [16, D], in fp8 with scale [D/BN, 16];
    sumsq [D/BN, 16] fp32; stamp [2] int64.
    """
    tile = tl.program_id(0)
    await_previous(PDL)
    let_next_start(PDL)  # not before: the next kernel reads the cursor without waiting
    if tile == 0:
        stamp(stamp_ptr, STAMP)
    rn = tile * BN + tl.arange(0, BN)
    rr = tl.arange(0, 16)
    token = tl.load(token_ptr + rr, mask=rr < n_rows, other=0)
    inside = (rr < n_rows)[None, :] & (rn < D)[:, None]
    y = tl.load(table_ptr + token[None, :].to(tl.int64) * D + rn[:, None], mask=inside, other=0.0).to(
        tl.float32
    )
    norm = tl.load(norm_ptr + rn, mask=rn < D, other=0.0)
    at = rr[None, :] * D + rn[:, None]
    tl.store(residual_ptr + at, y, mask=inside)
    store_rows(y * norm[:, None], h_ptr, h_scale_ptr, at, inside, tile)
    tl.store(sumsq_ptr + tile * 16 + rr, tl.sum(y * y, axis=0))
