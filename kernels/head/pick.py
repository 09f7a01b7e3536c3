"""Of the likeliest tokens at some places those that were not proposed there, each by its rank (Triton).

What `pick_reference` in `reference` says in torch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def pick_kernel(likely_ptr, choice_ptr, out_ptr, N: tl.constexpr, WIDTH: tl.constexpr, PDL: tl.constexpr):
    """out[b] = the rank-th of likely[place] other than the token proposed there. Grid: (picks,).

    Shapes: likely [places, N] int64, best first; choice [3, 16] int64: place, rank (1 … N) and proposed token (−1 for none)
    of each pick, where the device reaches them; out [16] int64. WIDTH: N or the next power of two.
    """
    b = tl.program_id(0)
    place = tl.load(choice_ptr + b)
    rank = tl.load(choice_ptr + 16 + b)
    proposed = tl.load(choice_ptr + 32 + b)
    at = tl.arange(0, WIDTH)
    await_previous(PDL)
    let_next_start(PDL)
    token = tl.load(likely_ptr + place * N + at, mask=at < N, other=-1)
    kept = (at < N) & (token != proposed)
    order = tl.cumsum(kept.to(tl.int32), axis=0)
    tl.store(out_ptr + b, tl.sum(tl.where(kept & (order == rank), token, 0), axis=0))
