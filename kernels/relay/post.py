"""The target's features on their way to the draft worker: from the target's device to the board (Triton)."""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def post_kernel(features_ptr, board_ptr, state_ptr, F: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    """Copy rows to the place of the round whose serial number is state[0]. Grid: (F / BLOCK, rows).

    Shapes: features [rows, F] fp32; board [2, 16, F] fp32 in the host's memory. Source: `reference.post`.
    """
    row = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    await_previous(PDL)
    let_next_start(PDL)
    place = tl.load(state_ptr) % 2
    x = tl.load(features_ptr + row.to(tl.int64) * F + at, mask=at < F, other=0.0)
    tl.store(board_ptr + (place * 16 + row) * F + at, x, mask=at < F)
