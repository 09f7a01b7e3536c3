"""Split-KV attention of up to 16 rows over one sequence, with the same bits for every row count (Triton).

Legend: H query heads, HK KV heads, G = H / HK, D head size, QT columns of a query tile, RT = QT // G rows in it.
Keys are the left operand: scores [CHUNK, QT], so a query is a column and columns never mix. Chunks lie at absolute
multiples of CHUNK; a row's mask cuts at its own length, and a chunk it does not reach adds exactly zero. fp32 partials
are merged in the order of chunks (`merge`): untiled by the program that arrives last, tiled by a kernel that follows. How
many chunks there are follows the cursor on the device.

Source: Dao et al. 2023 (flash-decoding); the order of merging is what makes rows exact. Reference: `reference.attend_rows`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.attention.merge import merged, query_columns, store_heads
from specmon.kernels.stream.overlap import await_previous, let_next_start, prefetch_lines


@triton.jit
def attend_chunk(q, k, v, seen, sm_scale):
    """mixed [D, QT], peak and mass [QT] of one chunk's keys and values, of which a query sees those `seen`.

    Shapes: q [QT, D]; k, v [CHUNK, D], zeros where no query sees them; seen [CHUNK, QT], or one column for all.
    """
    score = tl.dot(k, q.T, input_precision="ieee") * sm_scale
    score = tl.where(seen, score, float("-inf"))
    peak = tl.max(score, axis=0)
    weight = tl.exp(score - tl.where(peak == float("-inf"), 0.0, peak)[None, :])
    mass = tl.sum(weight, axis=0)
    mixed = tl.dot(v.T, weight.to(v.dtype), input_precision="ieee")
    return mixed, peak, mass


@triton.jit(do_not_specialize=["n_rows"])
def attend_kernel(
    q_ptr, k_ptr, v_ptr, cursor_ptr, out_ptr, out_scale_ptr, part_ptr, peak_ptr, mass_ptr, counter_ptr, n_rows, sm_scale,
    k_head, k_slot, v_head, v_slot,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, QT: tl.constexpr,
    CHUNK: tl.constexpr, PROGRAMS: tl.constexpr, MAX_CHUNKS: tl.constexpr, TILED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program attends to chunks first, first + PROGRAMS …; a tile's last merges them. Grid: (HK, tiles, PROGRAMS).

    Where TILED, more chunks than one are left for `merge_kernel` to merge. Row r stands at position cursor + r and sees
    slots 0 … cursor + r.
    Shapes: q [16, H, D]; out [16, H, D], in fp8 with scale [H, 16]; scratch: part [HK, tiles, MAX_CHUNKS, D, QT],
    peak and mass [HK, tiles, MAX_CHUNKS, QT] fp32, counter [HK, tiles] int32.
    """
    kv, tile, first = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    cursor = tl.load(cursor_ptr)  # set before the pass began
    length = cursor + n_rows
    n_chunks = tl.cdiv(length, CHUNK)
    if first >= n_chunks:
        return
    column = tl.arange(0, QT)
    rd = tl.arange(0, D)
    row, head, used = query_columns(kv, tile, n_rows, H, HK, QT)
    query_at = row * (H * D) + head * D
    sees = cursor + row + 1
    group = kv * tl.num_programs(1) + tile
    k_ptr += kv * k_head
    v_ptr += kv * v_head
    if PDL:
        LINE: tl.constexpr = 1024 // k_ptr.dtype.element_ty.primitive_bitwidth
        early = tl.minimum(first * CHUNK + tl.arange(0, CHUNK), length - 1)[:, None].to(tl.int64)
        line = (tl.arange(0, D // LINE if D > LINE else 1) * LINE)[None, :]
        prefetch_lines(k_ptr + early * k_slot + line)
        prefetch_lines(v_ptr + early * v_slot + line)
    k_ptr += rd[None, :]
    v_ptr += rd[None, :]
    await_previous(PDL)
    q = tl.load(q_ptr + query_at[:, None] + rd[None, :], mask=used[:, None], other=0.0)
    mass = tl.zeros((QT,), tl.float32)
    mixed = tl.zeros((D, QT), tl.float32)
    for chunk in tl.range(first, n_chunks, PROGRAMS, num_stages=1):
        slot = chunk * CHUNK + tl.arange(0, CHUNK)
        at = slot[:, None].to(tl.int64)
        held = (slot < length)[:, None]
        k = tl.load(k_ptr + at * k_slot, mask=held, other=0.0)
        v = tl.load(v_ptr + at * v_slot, mask=held, other=0.0)
        mixed, peak, mass = attend_chunk(q, k, v, slot[:, None] < sees[None, :], sm_scale)
        if n_chunks > 1:
            where = group * MAX_CHUNKS + chunk
            tl.store(part_ptr + where.to(tl.int64) * D * QT + rd[:, None] * QT + column[None, :], mixed)
            tl.store(peak_ptr + where * QT + column, peak)
            tl.store(mass_ptr + where * QT + column, mass)
    let_next_start(PDL)
    done = n_chunks == 1  # one chunk: there is nothing to merge
    if not TILED and n_chunks > 1:
        tl.debug_barrier()
        arrived = tl.atomic_add(counter_ptr + group, 1, sem="acq_rel", scope="gpu")
        done = arrived == tl.minimum(n_chunks, PROGRAMS) - 1
        if done:
            tl.store(counter_ptr + group, 0)
            mixed, mass = merged(group * MAX_CHUNKS, n_chunks, rd, part_ptr, peak_ptr, mass_ptr, D, QT, 4, 1)
    if done:
        store_heads(mixed, mass, rd, row, head, used, out_ptr, out_scale_ptr, H, D)
