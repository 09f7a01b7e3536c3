"""Rows of numbers fetched from wherever they lie, so that a captured graph reads them where they are this time.

Reference: `reference.gather`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def gather_kernel(address_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    """out[r] = the N fp32 numbers at address[r]. Grid: (N / BLOCK, rows).

    Shapes: address [rows] int64, where the device reaches it; out [rows, N] fp32. A row may be its own source.
    """
    row = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    await_previous(PDL)
    let_next_start(PDL)
    source_ptr = tl.load(address_ptr + row).to(tl.pointer_type(tl.float32))
    x = tl.load(source_ptr + at, mask=at < N, other=0.0)
    tl.store(out_ptr + row.to(tl.int64) * N + at, x, mask=at < N)
