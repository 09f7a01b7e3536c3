"""Decoders whose rounds the target's device runs one after another: the host queues one ahead, and tells of them.

The draft worker and the device hand over on a board they share (`kernels/relay`); AR has the board to itself. Whatever the
host does meanwhile, text, events, recording, costs the rounds nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence

from specmon.core.decoders.fan_out import FanOut
from specmon.core.decoders.rounds import Ready, conclude
from specmon.core.decoders.run import Run
from specmon.core.decoders.sheet import Sheet
from specmon.core.decoders.target import Verified
from specmon.core.drafters.base import Branches, Drafted, Outcome, Proposal
from specmon.core.drafters.link import WorkerLink
from specmon.core.errors import SpecmonError
from specmon.core.events import Event
from specmon.core.models.queued import Queued, QueuedRounds

#: Tokens that can end generation on the device.
MOST_EOS = 16

_LOOK_S = 5e-5  # the device does not wait for the host, so it may sleep between looks
_CHECK_S = 0.25


def queued_ar(run: Run, rounds: QueuedRounds) -> Generator[Event]:
    """Run greedy rounds of AR until the turn ends or the context has no room."""
    if not _has_room(run, 0, rounds=1):
        return
    _start(run, rounds, [])
    coming: deque[Queued] = deque()

    def queue() -> None:
        coming.append(rounds.queue(0, len(run.target.held) + len(coming) + 1))

    try:
        while run.going() and _has_room(run, 0, rounds=1):
            if not coming:
                yield from run.sync_clock()
                queue()
            sheet = run.open_round()
            if _goes_on(run, 0):
                queue()
            queued = coming.popleft()
            _wait(queued, lambda: None)
            _accept(run, sheet, rounds, queued, None)
            run.drain(sheet)
            yield from run.close(sheet)
    finally:
        rounds.stop()


def queued_rounds(
    run: Run, link: WorkerLink, rounds: QueuedRounds, draft_len: int, fan_out: FanOut | None
) -> Generator[Event, None, Ready | None]:
    """Run greedy rounds of SSD until the turn ends, or drafts of `draft_len` tokens have no room in the context.

    Without a `fan_out` no branches are prepared: SD. Returns: the next round's draft, if one was made.
    """
    if not _has_room(run, draft_len, rounds=1):
        return None
    ready: Ready = link.draft(draft_len)
    before: Branches | None = None
    _start(run, rounds, _proposal(ready).tokens)
    coming: deque[tuple[Queued, tuple[int, ...] | None]] = deque()

    def queue() -> None:
        longest = len(run.target.held) + (len(coming) + 1) * (draft_len + 1)
        widths = None if fan_out is None else fan_out.widths()
        link.round(rounds.serial, widths, draft_len)
        coming.append((rounds.queue(draft_len, longest), widths))

    try:
        while run.going() and _has_room(run, draft_len, rounds=1):
            if not coming:
                yield from run.sync_clock()
                queue()
            sheet = run.open_round(draft_len)
            sheet.proposal = _proposal(ready)
            if isinstance(ready, Drafted):
                sheet.drafted(ready)
            if _goes_on(run, draft_len):
                queue()
            queued, widths = coming.popleft()
            _wait(queued, link.check)
            outcome = _accept(run, sheet, rounds, queued, None if isinstance(ready, Drafted) else before)
            chosen: Proposal | None = None
            if widths is not None:
                before = link.branches()
                chosen = conclude(run, sheet, before, widths, outcome, fan_out)
                sheet.settle(link.settled())
            if run.stop_reason is None:
                ready = chosen or link.drafted()
            run.drain(sheet)
            yield from run.close(sheet)
    finally:
        rounds.stop()
    return ready


def _start(run: Run, rounds: QueuedRounds, draft: Sequence[int]) -> None:
    first, position = [run.pending, *draft], len(run.target.held)
    rounds.start(first, position, left=run.left, last=sorted(run.eos_ids))


def _goes_on(run: Run, draft_len: int) -> bool:
    """Whether a round may be queued behind the one that is under way."""
    return _has_room(run, draft_len, rounds=2) and not run.pausing and not run.clock_is_due


def _proposal(ready: Ready) -> Proposal:
    return ready.proposal if isinstance(ready, Drafted) else ready


def _has_room(run: Run, draft_len: int, *, rounds: int) -> bool:
    """Whether the context has room for so many rounds, each keeping all of its draft."""
    return run.room >= rounds * (draft_len + 1)


def _wait(queued: Queued, check: Callable[[], None]) -> None:
    """Wait until the device is done with a round. `check` raises where what it depends on is gone."""
    check_at = time.monotonic() + _CHECK_S
    while not queued.done.reached:
        time.sleep(_LOOK_S)
        if time.monotonic() > check_at:
            check()
            check_at = time.monotonic() + _CHECK_S


def _accept(run: Run, sheet: Sheet, rounds: QueuedRounds, queued: Queued, before: Branches | None) -> Outcome:
    """Take in what the device told of a round. `before`: the branches its draft came from, if it did.

    Raises: SpecmonError where the device waited for a draft in vain, or verified another than was announced.
    """
    record, rows = rounds.take(queued)
    if rounds.board.gave_up:
        raise SpecmonError(
            "The draft worker handed no draft to the target's device.", "The next turn starts anew."
        )
    if tuple(record.draft[: queued.draft_len]) != sheet.proposal.tokens:
        raise SpecmonError("The target's device verified another draft than the worker told of.")
    now = run.clock()
    settled = run.host_time(record.settled)
    verified = Verified(choices=rows.greedy, rows=rows, launches=rows.launches)
    outcome = run.accept(
        sheet, verified, sheet.t0, now, now if settled is None else min(max(settled, sheet.t0), now)
    )
    sheet.draft_handoff_bytes += len(sheet.emitted) * rounds.feature_bytes
    if before is not None:
        began = next(span.start for span in sheet.spans if span.kind == "verify")
        sheet.span(0, "wait" if before.t1 > sheet.t0 else "handoff", sheet.t0, began)
    return outcome
