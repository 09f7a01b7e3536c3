"""The next level of a drafted tree and where its rows stand, so that a tree needs no look from the host (Triton).

A candidate's place is the number of those ahead of it: of a greater chance, or of the same one and before it. What `grow`
and `descend` in `reference` say in torch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit(do_not_specialize=["behind", "depth"])
def grow_kernel(
    likely_ptr, likely_prob_ptr, above_chance_ptr, above_table_ptr, cursor_ptr, carry_ptr,
    token_ptr, parent_ptr, prob_ptr, chance_ptr, table_ptr, address_ptr, behind, depth,
    ROWS: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr, CARRY_BYTES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The WIDTH likeliest children of ROWS nodes at depth − 1, each with COUNT likely tokens. Grid: (1,).

    Node j gets slot cursor[0] + behind + (depth − 1) · WIDTH + j and position cursor[0] + behind + depth − 1; the tree's
    root is the last confirmed token, `behind` the rows from the cursor to it. Where CARRY_BYTES, address[j] is where its
    parent's carry lies: as many bytes a row from `carry` on.
    Shapes: likely [ROWS, COUNT] int64, likely_prob alike, fp32; above_chance [16] fp32; cursor [1] int32; token [16] int64,
    parent [16] int32, prob, chance [16] fp32; above_table, table [19, 16] int32 (prefixes, positions, slots, then a row a
    depth the slots of paths); address [16] int64.
    """
    N: tl.constexpr = ROWS * COUNT
    at = tl.arange(0, triton.next_power_of_2(N))
    inside = at < N
    row = at // COUNT
    let_next_start(PDL)
    await_previous(PDL)
    token = tl.load(likely_ptr + at, mask=inside, other=0)
    prob = tl.load(likely_prob_ptr + at, mask=inside, other=0.0)
    chance = prob * tl.load(above_chance_ptr + row, mask=inside, other=0.0)
    rank = tl.where(inside & (chance >= 0), chance, -1.0)  # what is no number comes last
    equal = rank[None, :] == rank[:, None]
    ahead = (rank[None, :] > rank[:, None]) | (equal & (at[None, :] < at[:, None]))
    place = tl.sum(ahead.to(tl.int32), axis=1)
    kept = inside & (place < WIDTH)
    tl.store(token_ptr + place, token, mask=kept)
    tl.store(parent_ptr + place, row, mask=kept)
    tl.store(prob_ptr + place, prob, mask=kept)
    tl.store(chance_ptr + place, chance, mask=kept)
    prefix = tl.load(cursor_ptr) + behind
    slot = prefix + (depth - 1) * WIDTH + place
    tl.store(table_ptr + place, prefix, mask=kept)
    tl.store(table_ptr + 16 + place, prefix + depth - 1, mask=kept)
    tl.store(table_ptr + 32 + place, slot, mask=kept)
    step = tl.arange(0, 16)[:, None]
    above = above_table_ptr + 48 + step * 16 + row[None, :]
    own = tl.load(above, mask=(step < depth - 1) & kept[None, :], other=0)
    own = tl.where(step == depth - 1, slot[None, :], own)
    tl.store(table_ptr + 48 + step * 16 + place[None, :], own, mask=(step < depth) & kept[None, :])
    if CARRY_BYTES > 0:
        address = carry_ptr.to(tl.int64) + row.to(tl.int64) * CARRY_BYTES
        tl.store(address_ptr + place, address, mask=kept)
