"""A round settled where it was verified: accepted, told, the next draft taken from the board, without the host (Triton).

The longest prefix of the draft that the target chose itself is accepted; the choice after it is the bonus. The outcome
goes to the board. Where generation goes on, the branches prepared for this round are waited for: one for this outcome is
the next draft; where there is none, the draft that is made after it is waited for. Tokens and positions of the next
round's rows then lie where its kernels read them, so that the host may queue rounds ahead.

Every wait is bounded: after PATIENCE looks, or when the host says stop, this round and those queued behind it end without
work that counts. Stores before a system fence are seen before those after it, over the bus too.
Source: Leviathan et al. 2023, algorithm 1 (acceptance); Kumar et al. 2026 (branches prepared for outcomes).
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer

from specmon.kernels.accept.walk import longest_agreeing
from specmon.kernels.stream.overlap import await_previous


@triton.jit
def _fence(lane, FENCE: tl.constexpr):
    """What every thread stored is seen by the host and other devices before what is stored next; loads likewise."""
    if FENCE:
        tl.inline_asm_elementwise(
            "fence.acq_rel.sys; mov.u32 $0, $1;", "=r,r", [lane], dtype=tl.int32, is_pure=False, pack=1
        )
    tl.debug_barrier()


@triton.jit
def _await(seq_ptr, wanted, stop_ptr, PATIENCE: tl.constexpr):
    """Look until seq is `wanted`. Returns: whether it is; not where the host said stop or the looks ran out."""
    looks = 0
    seq = tl.load(seq_ptr, volatile=True)
    stopped = tl.load(stop_ptr, volatile=True)
    while (seq != wanted) & (stopped == 0) & (looks < PATIENCE):
        seq = tl.load(seq_ptr, volatile=True)
        stopped = tl.load(stop_ptr, volatile=True)
        looks += 1
    return (seq == wanted) & (stopped == 0)


@triton.jit
def settle_kernel(
    board_ptr, winners_ptr, tokens_ptr, position_ptr, state_ptr, last_ptr,
    LENGTH: tl.constexpr, RECORDS: tl.constexpr, RECORD: tl.constexpr, HEAD: tl.constexpr, WINNERS: tl.constexpr,
    TABLE_SEQ: tl.constexpr, KEYS: tl.constexpr, TOKENS: tl.constexpr, DRAFTS: tl.constexpr, DRAFTED: tl.constexpr,
    BRANCHES: tl.constexpr, KEY_SHIFT: tl.constexpr, PATIENCE: tl.constexpr, STAMP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Settle a round of LENGTH drafted tokens, 0 where nothing drafts: there is nothing to wait for. Grid: (1,).

    Shapes: board as `board` lays it out; winners [WINNERS] int64; tokens [16] int64, the pending token and the draft;
    position [16] int32, where rows stand; state [3] int64: the round's serial number, tokens that may still be emitted,
    whether generation is over; last [16] int64, tokens that end it, −1 for none.
    """
    at = tl.arange(0, 16)
    lane = tl.arange(0, 32)
    await_previous(PDL)
    serial = tl.load(state_ptr)
    left = tl.load(state_ptr + 1)
    over = tl.load(state_ptr + 2)
    cursor = tl.load(position_ptr)
    draft = tl.load(tokens_ptr + 1 + at, mask=at < LENGTH, other=-1)
    choice = tl.load(winners_ptr + at, mask=at <= LENGTH, other=-1)
    last = tl.load(last_ptr + at)
    accepted, bonus = longest_agreeing(draft, choice, LENGTH, at)
    ends = tl.max(((choice[:, None] == last[None, :]) & (at <= accepted)[:, None]).to(tl.int32))
    left -= accepted + 1

    record_ptr = board_ptr + HEAD + (serial % RECORDS) * RECORD
    word = tl.arange(0, 64)
    won = tl.load(winners_ptr + word, mask=word < WINNERS, other=0)
    tl.store(record_ptr + 1, over)
    tl.store(record_ptr + 2, cursor.to(tl.int64))
    tl.store(record_ptr + 3, accepted.to(tl.int64))
    if STAMP:
        tl.store(record_ptr + 4, globaltimer())
    tl.store(record_ptr + 16 + at, draft)
    tl.store(record_ptr + 32 + word, won, mask=word < WINNERS)
    _fence(lane, STAMP)
    tl.store(record_ptr, serial + 1)

    place = serial % 2
    goes_on = (over == 0) & (ends == 0) & (left > 0)
    if goes_on:
        there = tl.load(board_ptr, volatile=True) == 0
        next_ptr = board_ptr
        if LENGTH > 0:
            there = _await(board_ptr + TABLE_SEQ + place, serial + 1, board_ptr, PATIENCE)
            _fence(lane, STAMP)
            branch = tl.arange(0, BRANCHES)
            keys = tl.load(board_ptr + KEYS + place * BRANCHES + branch, volatile=True)
            wanted = (accepted.to(tl.int64) << KEY_SHIFT) + bonus
            hit = tl.min(tl.where(keys == wanted, branch, BRANCHES), axis=0)
            next_ptr = board_ptr + TOKENS + (place * BRANCHES + hit) * 16
            if there & (hit == BRANCHES):
                draft_ptr = board_ptr + DRAFTS + place * DRAFTED
                there = _await(draft_ptr, serial + 1, board_ptr, PATIENCE)
                _fence(lane, STAMP)
                next_ptr = draft_ptr + 16
        goes_on = there
        if there:
            tokens = tl.load(next_ptr + at, mask=at < LENGTH, other=0, volatile=True)
            tl.store(tokens_ptr, bonus)
            tl.store(tokens_ptr + 1 + at, tokens, mask=at < LENGTH)
            tl.store(position_ptr + at, cursor + accepted + 1 + at)
        else:
            tl.store(
                board_ptr + 1, 1 - tl.load(board_ptr, volatile=True)
            )  # it was not the host that said stop
    tl.store(state_ptr, serial + 1)
    tl.store(state_ptr + 1, left)
    if goes_on == 0:
        tl.store(state_ptr + 2, 1)
