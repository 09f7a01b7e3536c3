"""Split-KV attention of rows that share a prefix, then go their own ways, with the bits of a main line (Triton).

Row r stands at position p_r and sees
    slots 0 … b_r − 1 of the main line, then own_r[0] … own_r[p_r − b_r], the slots of its own positions b_r … p_r,
where b_r is its prefix's length: an SSD branch's tokens, or a tree node's ancestors and itself. Chunks lie at absolute
multiples of CHUNK in positions, not slots, so that each holds the keys it would hold on the main line, in their places.
Chunks below every prefix are read once for the rows of a tile; later ones row by row, slots gathered by position: such a
partial result is computed for all columns of a tile, since columns never mix, and kept for its row's.

Legend: as in `chunked`, whose arithmetic and scratch this shares. The torch reference is `reference.attend_branches`.
Source: Dao et al. 2023 (flash-decoding); Juravsky et al. 2024 (hydragen), for the shared prefix.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.attention.chunked import attend_chunk
from specmon.kernels.attention.merge import chunks_of, merged, query_columns, store_heads
from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit(do_not_specialize=["n_rows"])
def attend_branches_kernel(
    q_ptr, k_ptr, v_ptr, position_ptr, prefix_ptr, own_ptr, out_ptr, out_scale_ptr,
    part_ptr, peak_ptr, mass_ptr, counter_ptr, n_rows, sm_scale, k_head, k_slot, v_head, v_slot,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, QT: tl.constexpr,
    CHUNK: tl.constexpr, PROGRAMS: tl.constexpr, MAX_CHUNKS: tl.constexpr, TILED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program takes pieces first, first + PROGRAMS …: shared chunks, then each row's others. Grid: (HK, tiles, PROGRAMS).

    The last to arrive at a tile merges, one chunk too; where TILED, `merge_kernel` does.
    Shapes: position, prefix [16] int32; own [n, 16] int32, the slot of row r's position prefix[r] + i at [i, r]; the rest
    as in `attend_kernel`.
    """
    kv, tile, first = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    ROWS: tl.constexpr = QT // (H // HK)
    rr = tl.arange(0, 16)
    # All three tables were set before the pass began.
    shortest = tl.min(tl.load(prefix_ptr + rr, mask=rr < n_rows, other=0x7FFFFFFF), axis=0)
    n_shared = shortest // CHUNK
    n_chunks = chunks_of(position_ptr, n_rows, CHUNK)
    n_others = n_chunks - n_shared
    n_pieces = n_shared + tl.minimum(n_rows - tile * ROWS, ROWS) * n_others
    if first >= n_pieces:
        return
    column = tl.arange(0, QT)
    rd = tl.arange(0, D)
    row, head, used = query_columns(kv, tile, n_rows, H, HK, QT)
    group = kv * tl.num_programs(1) + tile
    k_ptr += kv * k_head + rd[None, :]
    v_ptr += kv * v_head + rd[None, :]
    await_previous(PDL)
    q = tl.load(q_ptr + (row * (H * D) + head * D)[:, None] + rd[None, :], mask=used[:, None], other=0.0)
    for piece in tl.range(first, n_pieces, PROGRAMS, num_stages=1):
        other = tl.maximum(piece - n_shared, 0)
        mine = tile * ROWS + other // n_others
        chunk = tl.where(piece < n_shared, piece, n_shared + other % n_others)
        position = chunk * CHUNK + tl.arange(0, CHUNK)
        ahead = position - tl.load(prefix_ptr + mine)
        held = position <= tl.load(position_ptr + mine)
        own = tl.load(own_ptr + ahead * 16 + mine, mask=held & (ahead >= 0), other=0)
        at = tl.where(ahead < 0, position, own)[:, None].to(tl.int64)
        k = tl.load(k_ptr + at * k_slot, mask=held[:, None], other=0.0)
        v = tl.load(v_ptr + at * v_slot, mask=held[:, None], other=0.0)
        mixed, peak, mass = attend_chunk(q, k, v, held[:, None], sm_scale)
        kept = used & ((row == mine) | (column * 0 + piece < n_shared))
        where = group * MAX_CHUNKS + chunk
        part = part_ptr + where.to(tl.int64) * D * QT + rd[:, None] * QT + column[None, :]
        tl.store(part, mixed, mask=kept[None, :])
        tl.store(peak_ptr + where * QT + column, peak, mask=kept)
        tl.store(mass_ptr + where * QT + column, mass, mask=kept)
    let_next_start(PDL)
    if not TILED:
        tl.debug_barrier()
        arrived = tl.atomic_add(counter_ptr + group, 1, sem="acq_rel", scope="gpu")
        if arrived == tl.minimum(n_pieces, PROGRAMS) - 1:
            tl.store(counter_ptr + group, 0)
            mixed, mass = merged(group * MAX_CHUNKS, n_chunks, rd, part_ptr, peak_ptr, mass_ptr, D, QT, 4, 1)
            store_heads(mixed, mass, rd, row, head, used, out_ptr, out_scale_ptr, H, D)
