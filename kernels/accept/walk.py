"""Which drafted tokens the target agrees with, and the cursor after them, without the host (Triton).

The target's choice after each prefix is known, greedy or sampled with noise of the position alone; a drafted token is
accepted just when it is that choice. With a the number accepted, the round emits the choices after 0 … a drafted tokens:
the accepted ones and the bonus.

Up to 15 nodes beside the root, so that 16 rows hold them; how many there are is read on the device. Unused outputs are −1.
Source: Leviathan et al. 2023, algorithm 1, for chains; Miao et al. 2023 (SpecInfer), VerifyGreedy, for trees.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def longest_agreeing(draft, choice, length, at):
    """How many of the first `length` drafted tokens are the target's choices, and the choice after them.

    Shapes: draft, choice [16] int64; at [16], their indices.
    """
    accepted = tl.min(tl.where((at < length) & (draft == choice), 16, at), axis=0)
    return accepted, tl.max(tl.where(at == accepted, choice, -1), axis=0)


@triton.jit
def _settle(accepted, bonus, emitted, cursor_ptr, accepted_ptr, bonus_ptr, emitted_ptr):
    """Write a round's outcome and move the cursor past the pending token and the accepted ones."""
    tl.store(accepted_ptr, accepted)
    tl.store(bonus_ptr, bonus)
    tl.store(emitted_ptr + tl.arange(0, 16), emitted)
    tl.store(cursor_ptr, tl.load(cursor_ptr) + accepted + 1)


@triton.jit
def accept_chain_kernel(
    draft_ptr, choice_ptr, length_ptr, cursor_ptr, accepted_ptr, bonus_ptr, emitted_ptr, PDL: tl.constexpr
):
    """The longest prefix of the draft that equals the target's choices. Grid: (1,).

    Shapes: draft [≥ K], choice [≥ K + 1] int64, the target's token after each prefix; length (K, 0 … 15), cursor,
    accepted [1] int32; bonus [1], emitted [16] int64.
    """
    at = tl.arange(0, 16)
    await_previous(PDL)
    length = tl.load(length_ptr)
    draft = tl.load(draft_ptr + at, mask=at < length, other=-1)
    choice = tl.load(choice_ptr + at, mask=at <= length, other=-1)
    let_next_start(PDL)
    accepted, bonus = longest_agreeing(draft, choice, length, at)
    emitted = tl.where(at <= accepted, choice, -1)
    _settle(accepted, bonus, emitted, cursor_ptr, accepted_ptr, bonus_ptr, emitted_ptr)


@triton.jit
def accept_tree_kernel(
    parent_ptr, token_ptr, choice_ptr, length_ptr, cursor_ptr, accepted_ptr, bonus_ptr, emitted_ptr, path_ptr,
    PDL: tl.constexpr,
):  # fmt: skip
    """The path from the root that always descends to the child that is the target's choice. Grid: (1,).

    Siblings differ in their tokens, so at most one agrees (were two alike, the first would count).
    Shapes: parent [≥ N] int32, −1 for children of the root; token [≥ N] int64; choice [≥ N + 1] int64, the target's token
    after the root and after each node; length (N, 0 … 15), cursor, accepted [1] int32; bonus [1], emitted [16] int64;
    path [16] int32, the accepted nodes from the root down.
    """
    at = tl.arange(0, 16)
    await_previous(PDL)
    length = tl.load(length_ptr)
    parent = tl.load(parent_ptr + at, mask=at < length, other=16)  # a node that is no one's parent
    token = tl.load(token_ptr + at, mask=at < length, other=-1)
    choice = tl.load(choice_ptr + at, mask=at <= length, other=-1)
    let_next_start(PDL)
    node = length * 0 - 1
    accepted = length * 0
    bonus = tl.max(tl.where(at == 0, choice, -1), axis=0)
    path = tl.full((16,), -1, tl.int32)
    emitted = tl.where(at == 0, choice, -1)
    for _ in tl.range(0, length):
        child = tl.min(tl.where((parent == node) & (token == bonus), at, 16), axis=0)
        descends = child < 16
        path = tl.where(descends & (at == accepted), child, path)
        node = tl.where(descends, child, node)
        accepted += descends.to(tl.int32)
        bonus = tl.max(tl.where(at == node + 1, choice, -1), axis=0)
        emitted = tl.where(at == accepted, bonus, emitted)
    tl.store(path_ptr + at, path)
    _settle(accepted, bonus, emitted, cursor_ptr, accepted_ptr, bonus_ptr, emitted_ptr)
