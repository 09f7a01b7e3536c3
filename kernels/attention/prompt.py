"""Causal attention of a prompt chunk over one sequence's KV cache (Triton).

    out = softmax(q kᵀ / √D, slots 0 … start + r for row r) v

One pass over the slots with a running maximum: a tile of rows keeps its scores in registers and meets tile after tile
of slots, in order. Slots that every row of a tile sees take no mask. The chunk's place is read on the device, so one
binary and one CUDA graph serve every position. The reference is `reference.attend_prefill`.

Legend: N rows, H query heads, HK KV heads, D head size, S cache slots, BM rows and BN slots of a tile.
Source: Dao 2023 (FlashAttention-2); the base-2 exponential is from Triton's fused attention tutorial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Rows and slots a program holds against each other at once, its warps, and slot tiles under way."""

    rows: int
    slots: int
    warps: int
    stages: int


def tiles_for(dtype: torch.dtype) -> Tiles:
    """How attention is cut up for a cache of `dtype`."""
    if dtype == torch.float32:  # no matrix unit multiplies it exactly: small tiles, in registers
        return Tiles(rows=32, slots=32, warps=4, stages=1)
    return Tiles(rows=128, slots=64, warps=8, stages=3)


@triton.jit
def _meet(score, v, scale, peak, mass, mixed):
    """Take a tile of scores [BM, BN] and its values [BN, D] into the running softmax."""
    top = tl.maximum(peak, tl.max(score, axis=1) * scale)
    weight = tl.exp2(score * scale - top[:, None])
    share = tl.exp2(peak - top)
    mass = mass * share + tl.sum(weight, axis=1)
    mixed = tl.dot(weight.to(v.dtype), v, mixed * share[:, None], input_precision="ieee")
    return top, mass, mixed


@triton.jit
def prompt_attend_kernel(
    q_ptr, k_ptr, v_ptr, place_ptr, out_ptr, scale, k_head, k_slot, v_head, v_slot,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """A program has BM rows of one head; those with most to see go first. Grid: (H, row tiles)."""
    G: tl.constexpr = H // HK
    head, tile = tl.program_id(0), tl.num_programs(1) - 1 - tl.program_id(1)
    await_previous(PDL)
    start = tl.load(place_ptr)
    n_rows = tl.load(place_ptr + 1)
    if tile * BM >= n_rows:
        return
    row = tile * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)[None, :]
    rn = tl.arange(0, BN)
    at = row[:, None].to(tl.int64) * (H * D) + head * D + rd
    q = tl.load(q_ptr + at, mask=(row < n_rows)[:, None], other=0.0)
    k_ptr += (head // G).to(tl.int64) * k_head
    v_ptr += (head // G).to(tl.int64) * v_head
    k_at = rn[:, None] * k_slot + rd
    v_at = rn[:, None] * v_slot + rd
    peak = tl.full((BM,), float("-inf"), tl.float32)
    mass = tl.zeros((BM,), tl.float32)
    mixed = tl.zeros((BM, D), tl.float32)
    seen_by_all = (start + tile * BM + 1) // BN * BN
    for _ in tl.range(0, seen_by_all, BN, num_stages=STAGES):
        k = tl.load(k_ptr + k_at)
        v = tl.load(v_ptr + v_at)
        k_ptr += BN * k_slot
        v_ptr += BN * v_slot
        score = tl.dot(q, k.T, input_precision="ieee")
        peak, mass, mixed = _meet(score, v, scale, peak, mass, mixed)
    end = start + tl.minimum(tile * BM + BM, n_rows)
    for first in tl.range(seen_by_all, end, BN, num_stages=STAGES):
        slot = first + rn
        held = (slot < end)[:, None]
        k = tl.load(k_ptr + k_at, mask=held, other=0.0)
        v = tl.load(v_ptr + v_at, mask=held, other=0.0)
        k_ptr += BN * k_slot
        v_ptr += BN * v_slot
        score = tl.dot(q, k.T, input_precision="ieee")
        score = tl.where(slot[None, :] <= start + row[:, None], score, float("-inf"))
        peak, mass, mixed = _meet(score, v, scale, peak, mass, mixed)
    let_next_start(PDL)
    out = mixed / mass[:, None]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=(row < n_rows)[:, None])


def attend_prompt(
    q: Tensor, k: Tensor, v: Tensor, place: Tensor, dtype: torch.dtype, tiles: Tiles | None = None
) -> Tensor:
    """Row r stands at position start + r and sees slots 0 … start + r; later slots are not read.

    Shapes: q [N, H, D], contiguous; k, v [S, HK, D], D contiguous, any other strides; place [2] int32: (start, rows),
    of which rows are computed. Returns: [N, H, D] in `dtype`.
    """
    n_rows, n_heads, head_dim = q.shape
    tiles = tiles or tiles_for(k.dtype)
    out = torch.empty(q.shape, dtype=dtype, device=q.device)
    prompt_attend_kernel[(n_heads, -(-n_rows // tiles.rows))](
        q, k, v, place, out, head_dim**-0.5 * math.log2(math.e),
        k.stride(1), k.stride(0), v.stride(1), v.stride(0),
        H=n_heads, HK=k.shape[1], D=head_dim, BM=tiles.rows, BN=tiles.slots, STAGES=tiles.stages,
        num_warps=tiles.warps, **launch_options(q.device),
    )  # fmt: skip
    return out
