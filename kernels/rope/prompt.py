"""q, k and v of a prompt chunk from its packed projection: head norms, rotary embedding, KV append (Triton).

    x ← x / sqrt(mean(x²) + eps) · weight                    (q and k heads, where the model has head norms)
    y1 = x1·cos − x2·sin,  y2 = x2·cos + x1·sin              (q and k heads; x1, x2: first and second half of a head)

All in fp32, rounded once to the cache's format. The references are `reference.apply_rope` and `rmsnorm.reference.rmsnorm`.
Source: Su et al. 2021; Qwen3 technical report (head norms).

Legend: N rows, HQ query heads, HK KV heads, D head size, S cache slots.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start
from specmon.kernels.stream.shapes import HeadShape

_ROWS = 32  # of one program


@triton.jit
def prompt_rope_kernel(
    qkv_ptr, q_norm_ptr, k_norm_ptr, cos_ptr, sin_ptr, place_ptr, q_ptr, k_ptr, v_ptr, eps,
    k_head, k_slot, v_head, v_slot,
    HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, HAS_NORM: tl.constexpr, BR: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program has one head of BR rows; row r is the token at position start + r. Grid: (HQ + 2·HK, row tiles).

    Shapes: qkv [N, (HQ + 2·HK)·D]; norms [D], cos, sin [positions, D/2] fp32; place [2] int32: (start, rows to compute);
    q [N, HQ, D]; k, v [S, HK, D] with strides of their own.
    """
    HALF: tl.constexpr = D // 2
    head, tile = tl.program_id(0), tl.program_id(1)
    await_previous(PDL)
    start = tl.load(place_ptr)
    n_rows = tl.load(place_ptr + 1)
    if tile * BR >= n_rows:
        return
    row = tile * BR + tl.arange(0, BR)
    rh = tl.arange(0, HALF)[None, :]
    inside = (row < n_rows)[:, None]
    at = qkv_ptr + row[:, None].to(tl.int64) * ((HQ + 2 * HK) * D) + head * D + rh
    low = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    if head < HQ + HK:
        if HAS_NORM:
            rms = tl.rsqrt((tl.sum(low * low, axis=1) + tl.sum(high * high, axis=1)) / D + eps)[:, None]
            norm_ptr = q_norm_ptr if head < HQ else k_norm_ptr
            low *= rms * tl.load(norm_ptr + rh)
            high *= rms * tl.load(norm_ptr + HALF + rh)
        angle = (start + row)[:, None] * HALF + rh
        cos = tl.load(cos_ptr + angle, mask=inside, other=0.0)
        sin = tl.load(sin_ptr + angle, mask=inside, other=0.0)
        turned = low * cos - high * sin
        high = high * cos + low * sin
        low = turned
    let_next_start(PDL)
    slot = (start + row)[:, None].to(tl.int64)
    if head < HQ:
        out = q_ptr + row[:, None].to(tl.int64) * (HQ * D) + head * D + rh
    elif head < HQ + HK:
        out = k_ptr + slot * k_slot + (head - HQ).to(tl.int64) * k_head + rh
    else:
        out = v_ptr + slot * v_slot + (head - HQ - HK).to(tl.int64) * v_head + rh
    tl.store(out, low.to(q_ptr.dtype.element_ty), mask=inside)
    tl.store(out + HALF, high.to(q_ptr.dtype.element_ty), mask=inside)


def turn_and_append(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    cos: Tensor,
    sin: Tensor,
    shape: HeadShape,
    k: Tensor,
    v: Tensor,
    place: Tensor,
    eps: float,
) -> Tensor:
    """Write K and V of a chunk to their slots of the cache.

    Shapes: qkv [N, (HQ + 2·HK)·D], biased, contiguous; norms of q and k heads [D] fp32; cos, sin [positions, D/2] fp32;
    k, v [S, HK, D] of one format, D contiguous, any other strides; place [2] int32: (start, rows), of which rows are
    computed and written. Returns: q [N, HQ, D] in the cache's format.
    """
    n_rows = qkv.shape[0]
    q = torch.empty(n_rows, shape.n_heads, shape.head_dim, dtype=k.dtype, device=qkv.device)
    q_norm, k_norm = norms if norms is not None else (cos, cos)
    prompt_rope_kernel[(shape.n_heads + 2 * shape.n_kv_heads, -(-n_rows // _ROWS))](
        qkv, q_norm, k_norm, cos, sin, place, q, k, v, eps,
        k.stride(1), k.stride(0), v.stride(1), v.stride(0),
        HQ=shape.n_heads, HK=shape.n_kv_heads, D=shape.head_dim, HAS_NORM=norms is not None, BR=_ROWS,
        num_warps=4, **launch_options(qkv.device),
    )  # fmt: skip
    return q
