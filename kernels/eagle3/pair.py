"""An EAGLE-3 layer's input in one kernel, and the features it begins with.

A row has two norms with an rms each, so that none can be left to the matmul behind: h is normed here, whole. The program
of a half row sums its squares in an order of its own, whatever the other rows are.
Formula: y · rsqrt(mean(y²) + eps) · weight for y the token's embedding, then for y the feature. Source: `reference.pair`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import scaled_to_e4m3
from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit(do_not_specialize=["n_rows"])
def collect_kernel(address_ptr, out_ptr, n_rows, F: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    """out [16, F] = the n_rows rows of F fp32 numbers that lie at address[0], then zeros. Grid: F / BLOCK.

    A captured graph thus reads features where they are, wherever that is this time. Source: `reference.collect`.
    """
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rr = tl.arange(0, 16)
    at = rr[:, None] * F + columns[None, :]
    inside = (columns < F)[None, :]
    await_previous(PDL)
    let_next_start(PDL)
    features_ptr = tl.load(address_ptr).to(tl.pointer_type(tl.float32))
    x = tl.load(features_ptr + at, mask=inside & (rr < n_rows)[:, None], other=0.0)
    tl.store(out_ptr + at, x.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def pair_kernel(
    token_ptr, table_ptr, token_norm_ptr, feature_ptr, feature_norm_ptr, residual_ptr, h_ptr, h_scale_ptr, eps,
    D: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr, NORMED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """h[r] = cat(norm(table[token[r]]), norm(feature[r])), residual[r] = feature[r] or, NORMED, its norm. Grid: (rows, 2).

    Shapes: token [16] int64; table [V, D]; norms [D] fp32; feature, residual [R, D], the latter fp32; h [16, 2D], in fp8
    with scale [2D/GROUP, 16], where GROUP divides D. GROUPS: a power of 2 from D / GROUP on.
    """
    row, half = tl.program_id(0), tl.program_id(1)
    group = tl.arange(0, GROUPS)
    at = group[None, :] * GROUP + tl.arange(0, GROUP)[:, None]
    inside = at < D
    norm_ptr = token_norm_ptr if half == 0 else feature_norm_ptr
    norm = tl.load(norm_ptr + at, mask=inside, other=0.0)
    await_previous(PDL)
    let_next_start(PDL)  # not before: the next kernel reads the cursor without waiting
    if half == 0:
        token = tl.load(token_ptr + row)
        y = tl.load(table_ptr + token * D + at, mask=inside, other=0.0).to(tl.float32)
    else:
        y = tl.load(feature_ptr + row * D + at, mask=inside, other=0.0).to(tl.float32)
        if not NORMED:
            tl.store(residual_ptr + row * D + at, y, mask=inside)
    y *= tl.rsqrt(tl.sum(tl.sum(y * y, axis=0), axis=0) / D + eps) * norm
    if NORMED and half == 1:
        tl.store(residual_ptr + row * D + at, y, mask=inside)
    if h_ptr.dtype.element_ty.is_fp8():
        y, scale = scaled_to_e4m3(y)
        tl.store(h_scale_ptr + (half * (D // GROUP) + group) * 16 + row, scale, mask=group < D // GROUP)
    tl.store(h_ptr + (2 * row + half) * D + at, y.to(h_ptr.dtype.element_ty), mask=inside)
