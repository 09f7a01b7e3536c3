"""Partial results of chunks merged in the order of chunks, by one program or cut along the head size (Triton).

With peak m, mass l and mixed o of the chunks so far, chunk c adds
    m' = max(m, m_c);  l' = l e^(m − m') + l_c e^(m_c − m');  o' = o e^(m − m') + o_c e^(m_c − m')
and out = o / l at the end. Entries of o never mix, so it may be cut anywhere: as long as l and each entry see the same
chunks in the same order, bits are the same. The fused multiply-adds are spelt out, since which product a compiler fuses
would decide bits.

Legend: H query heads, HK KV heads, D head size, QT columns of a query tile.
Source: Dao et al. 2023 (flash-decoding), merged in order instead of by a tree.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.matmul import scaled_to_e4m3
from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def query_columns(kv, tile, n_rows, H: tl.constexpr, HK: tl.constexpr, QT: tl.constexpr):
    """The row and the head of each column of a query tile, and whether there is such a row: [QT] each."""
    G: tl.constexpr = H // HK
    RT: tl.constexpr = QT // G
    column = tl.arange(0, QT)
    row = tile * RT + column // G
    return row, kv * G + column % G, (column < RT * G) & (row < n_rows)


@triton.jit
def chunks_of(position_ptr, n_rows, CHUNK: tl.constexpr):
    """Chunks that the furthest row reaches into; row r stands at position[r]."""
    row = tl.arange(0, 16)
    return tl.max(tl.load(position_ptr + row, mask=row < n_rows, other=0), axis=0) // CHUNK + 1


@triton.jit
def store_heads(mixed, mass, rd, row, head, used, out_ptr, out_scale_ptr, H: tl.constexpr, D: tl.constexpr):
    """out = mixed [rd, QT] / mass [QT]; in fp8, for which rd must be the whole head, with a scale a column."""
    out = tl.where(used[None, :], mixed / mass[None, :], 0.0)
    if out_ptr.dtype.element_ty.is_fp8():
        out, scale = scaled_to_e4m3(out)
        tl.store(out_scale_ptr + head * 16 + row, scale, mask=used)
    at = (row * (H * D) + head * D)[None, :] + rd[:, None]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=used[None, :])


@triton.jit
def merged(
    first, n_chunks, rd, part_ptr, peak_ptr, mass_ptr,
    D: tl.constexpr, QT: tl.constexpr, TOGETHER: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """mixed [rd, QT] and mass [QT] of all chunks, whose partial results start at `first`, merged in their order.

    TOGETHER chunks an iteration, whose loads travel together, and those of STAGES − 1 more iterations ahead of them; what
    lies past the last chunk is not read and adds exactly zero.
    """
    column = tl.arange(0, QT)
    peak = tl.full((QT,), float("-inf"), tl.float32)
    mass = tl.zeros((QT,), tl.float32)
    mixed = tl.zeros((rd.shape[0], QT), tl.float32)
    for some in tl.range(0, n_chunks, TOGETHER, num_stages=STAGES):
        for one in tl.static_range(TOGETHER):
            there = column * 0 + some + one < n_chunks
            where = first + some + one
            new = tl.load(
                peak_ptr + where * QT + column, mask=there, other=float("-inf"), cache_modifier=".cg"
            )
            new_mass = tl.load(mass_ptr + where * QT + column, mask=there, other=0.0, cache_modifier=".cg")
            part = part_ptr + where.to(tl.int64) * D * QT + rd[:, None] * QT + column[None, :]
            new_mixed = tl.load(part, mask=there[None, :], other=0.0, cache_modifier=".cg")
            top = tl.maximum(peak, new)
            safe = tl.where(top == float("-inf"), 0.0, top)
            old_share, new_share = tl.exp(peak - safe), tl.exp(new - safe)
            mass = tl.fma(mass, old_share, new_mass * new_share)
            mixed = tl.fma(mixed, old_share[None, :], new_mixed * new_share[None, :])
            peak = top
    return mixed, mass


@triton.jit(do_not_specialize=["n_rows"])
def merge_kernel(
    part_ptr, peak_ptr, mass_ptr, counter_ptr, position_ptr, out_ptr, out_scale_ptr, n_rows,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DT: tl.constexpr, QT: tl.constexpr,
    CHUNK: tl.constexpr, MAX_CHUNKS: tl.constexpr, BRANCHES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program merges DT entries of a tile's heads. Grid: (HK, tiles, D / DT).

    Rows follow each other from position[0] on, and at one chunk there is nothing to do: `attend_kernel` stores its result.
    BRANCHES: rows stand where `position` [16] says, and one chunk is merged too (`branched`).
    In fp8 a head's entries share a scale: merged entries go back to where chunk 0's lay, and the program that arrives last
    rounds and stores the whole head.
    Shapes: as `attend_kernel`.
    """
    kv, tile, piece = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if BRANCHES:
        n_chunks = chunks_of(position_ptr, n_rows, CHUNK)
    else:
        n_chunks = tl.cdiv(tl.load(position_ptr) + n_rows, CHUNK)
    let_next_start(
        PDL
    )  # few programs, and by now all have started: what follows may fetch its weights meanwhile
    await_previous(PDL)
    if not BRANCHES and n_chunks == 1:
        return
    group = kv * tl.num_programs(1) + tile
    first = group * MAX_CHUNKS
    rd = piece * DT + tl.arange(0, DT)
    mixed, mass = merged(first, n_chunks, rd, part_ptr, peak_ptr, mass_ptr, D, QT, 4, 5)
    row, head, used = query_columns(kv, tile, n_rows, H, HK, QT)
    if out_ptr.dtype.element_ty.is_fp8():
        column, every = tl.arange(0, QT), tl.arange(0, D)
        part_ptr += first.to(tl.int64) * D * QT
        tl.store(part_ptr + rd[:, None] * QT + column[None, :], mixed)
        tl.debug_barrier()
        arrived = tl.atomic_add(counter_ptr + group, 1, sem="acq_rel", scope="gpu")
        if arrived == D // DT - 1:
            tl.store(counter_ptr + group, 0)
            whole = tl.load(part_ptr + every[:, None] * QT + column[None, :], cache_modifier=".cg")
            store_heads(whole, mass, every, row, head, used, out_ptr, out_scale_ptr, H, D)
    else:
        store_heads(mixed, mass, rd, row, head, used, out_ptr, out_scale_ptr, H, D)
