"""Attention of many sequences that stand apart, one new token of each, over a KV cache of their own each (Triton).

    out = softmax(q kᵀ / √D, slots start … position of the row) v

All rows are at the same position, in slots that begin where each one's conversation does. The new token's key and value are
appended here. One pass over a row's own slots with a running maximum, no slot read that is not seen: what bounds it is
memory, so products are plain multiplications. The reference is `reference.attend_apart`.

Legend: B rows, H query heads, HK KV heads, D head size, S cache slots, BN slots of a tile.
Source: Dao 2023 (FlashAttention-2) for the running softmax.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start

_PRODUCTS = 8192  # of a tile: queries · slots · head size, kept in registers


@triton.jit
def attend_apart_kernel(
    q_ptr, new_k_ptr, new_v_ptr, k_ptr, v_ptr, start_ptr, position_ptr, out_ptr, scale, n_slots,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, BN: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program has the queries of one KV head of one row. Grid: (HK, B).

    Shapes: q, out [B, H, D]; new_k, new_v [B, HK, D]; k, v [B, HK, n_slots, D], in which slot `position` is written;
    start [B] int64; position [1] int64. `scale`: 1 / √D.
    """
    EACH: tl.constexpr = H // HK
    head, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rq = tl.arange(0, triton.next_power_of_2(EACH))
    rd = tl.arange(0, D)
    await_previous(PDL)
    let_next_start(PDL)
    position = tl.load(position_ptr)
    start = tl.load(start_ptr + row)
    at_q = ((row * H + head * EACH + rq) * D)[:, None] + rd[None, :]
    mine = (rq < EACH)[:, None]
    q = tl.load(q_ptr + at_q, mask=mine, other=0.0).to(tl.float32) * scale
    new_k = tl.load(new_k_ptr + (row * HK + head) * D + rd)
    new_v = tl.load(new_v_ptr + (row * HK + head) * D + rd)
    cache = (row * HK + head) * n_slots * D
    tl.store(k_ptr + cache + position * D + rd, new_k)
    tl.store(v_ptr + cache + position * D + rd, new_v)

    peak = tl.sum(q * new_k.to(tl.float32)[None, :], axis=1)
    mass = tl.full(peak.shape, 1.0, tl.float32)
    mixed = new_v.to(tl.float32)[None, :] + tl.zeros(q.shape, tl.float32)
    for first in range(start, position, BN):
        slot = first + tl.arange(0, BN)
        seen = slot < position
        at = cache + slot[:, None] * D + rd[None, :]
        k = tl.load(k_ptr + at, mask=seen[:, None], other=0.0).to(tl.float32)
        v = tl.load(v_ptr + at, mask=seen[:, None], other=0.0).to(tl.float32)
        score = tl.sum(q[:, None, :] * k[None, :, :], axis=2)
        score = tl.where(seen[None, :], score, float("-inf"))
        top = tl.maximum(peak, tl.max(score, axis=1))
        weight = tl.exp(score - top[:, None])
        share = tl.exp(peak - top)
        mass = mass * share + tl.sum(weight, axis=1)
        mixed = mixed * share[:, None] + tl.sum(weight[:, :, None] * v[None, :, :], axis=1)
        peak = top
    tl.store(out_ptr + at_q, (mixed / mass[:, None]).to(out_ptr.dtype.element_ty), mask=mine)


def attend_apart(
    q: Tensor, new_k: Tensor, new_v: Tensor, keys: Tensor, values: Tensor, start: Tensor, position: Tensor
) -> Tensor:
    """Append a token's key and value in each row, and attend from it.

    Shapes: q [B, H, D]; new_k, new_v [B, HK, D]; keys, values [B, HK, S, D], all contiguous and of one format; start [B]
    and position [1] int64, on the device. Returns: [B, H, D], as q.
    Raises: ValueError for a head size that is no power of 2.
    """
    n_rows, n_heads, head_dim = q.shape
    if head_dim & (head_dim - 1):
        raise ValueError(f"a head size of {head_dim} is no power of 2")
    out = torch.empty_like(q)
    queries = triton.next_power_of_2(n_heads // new_k.shape[1])
    attend_apart_kernel[(new_k.shape[1], n_rows)](
        q,
        new_k,
        new_v,
        keys,
        values,
        start,
        position,
        out,
        1 / math.sqrt(head_dim),
        keys.shape[2],
        H=n_heads,
        HK=new_k.shape[1],
        D=head_dim,
        BN=max(_PRODUCTS // (queries * head_dim), 1),
        num_warps=4,
        **launch_options(q.device),
    )
    return out
