"""AR, SD and SSD: three round loops over the same verification.

A round is told while the next one's verification runs, where the backend can run by itself. In a race a lane is paused
between two rounds: the last before a pause is told at once, and nothing of it runs on any device meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from specmon.core.decoders.fan_out import FanOut
from specmon.core.decoders.run import Run
from specmon.core.decoders.sheet import Sheet
from specmon.core.drafters.base import Branches, Drafted, Outcome, Proposal
from specmon.core.drafters.link import DraftLink
from specmon.core.events import Event, Span, SpanKind

_NO_DRAFT = Proposal(tokens=())


#: A draft made just now, or one that was prepared as a branch.
Ready = Drafted | Proposal


def _taken(ready: Ready, sheet: Sheet) -> Proposal:
    """The round's draft, no longer than the context has room for; what making it cost is noted."""
    if isinstance(ready, Drafted):
        sheet.drafted(ready)
        ready = ready.proposal
    k = sheet.requested_k
    return replace(ready, tokens=ready.tokens[:k], probs=ready.probs[:k])


class _Telling:
    """Holds a finished round back until the next one's verification has begun.

    `link`: what prepared the branches of the rounds, if they have any.
    """

    def __init__(self, run: Run, link: DraftLink | None = None) -> None:
        self._run, self._link = run, link
        self._finished: Sheet | None = None

    def tell(self) -> Iterator[Event]:
        """The round held back, if there is one."""
        finished, self._finished = self._finished, None
        if finished is None:
            return
        if finished.branches is not None:
            assert self._link is not None
            finished.settle(self._link.settled())
        yield from self._run.close(finished)

    def finish(self, sheet: Sheet) -> Iterator[Event]:
        """Hold `sheet` back, or tell it where nothing may run on after it."""
        self._finished = sheet
        if self._run.pausing or self._run.stop_reason is not None:
            yield from self.tell()


def ar_rounds(run: Run) -> Iterator[Event]:
    """Autoregressive decoding: one token a round."""
    telling = _Telling(run)
    while run.going():
        yield from run.sync_clock()
        sheet = run.open_round()
        run.begin(sheet, _NO_DRAFT)
        yield from telling.tell()
        run.verify(sheet)
        yield from telling.finish(sheet)
    yield from telling.tell()


def sd_rounds(run: Run, link: DraftLink, draft_len: int, ready: Ready | None = None) -> Iterator[Event]:
    """Speculative decoding: draft, then verify. `ready`: the first draft, if it is there.

    Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding".
    """
    telling = _Telling(run)
    while run.going():
        yield from run.sync_clock()
        sheet = run.open_round(draft_len)
        proposal = _taken(ready or link.draft(sheet.requested_k), sheet)
        ready = None
        run.begin(sheet, proposal)
        yield from telling.tell()
        link.outcome(run.verify(sheet))
        yield from telling.finish(sheet)
    yield from telling.tell()


def conclude(
    run: Run,
    sheet: Sheet,
    branches: Branches,
    widths: tuple[int, ...],
    outcome: Outcome,
    fan_out: FanOut | None,
) -> Proposal | None:
    """Note what became of a round's branches, as many as `widths` asked for; `fan_out` learns from it.

    Returns: the next draft, None where no branch is for the outcome.
    """
    sheet.branched(branches, widths)
    hit = branches.hit(outcome)
    miss = branches.miss(outcome) if hit is None else None
    if run.stop_reason is None:
        sheet.succeeded(hit, miss)
    chosen = branches.prepared[hit] if hit is not None else None
    if fan_out is not None and sheet.bonus is not None:
        width = 0 if miss == "late" else widths[sheet.accepted_len]
        fan_out.saw(sheet.accepted_len, width, chosen.rank if chosen else None)
    return chosen.proposal if chosen else None


def ssd_rounds(
    run: Run, link: DraftLink, draft_len: int, fan_out: FanOut, ready: Ready | None = None
) -> Iterator[Event]:
    """Speculative speculative decoding: while the target verifies, the draft device prepares the next draft.

    After each accepted_len it prepares one for each of some likely bonus tokens, as many as `fan_out` says, and hands them
    over as they are finished: where the outcome has one, the target goes on at once. Where it has none, the draft device
    drafts from scratch. `ready`: the first draft, if it is there.
    Source: Kumar et al. 2026, "Speculative Speculative Decoding" (code: tanishqkumar/ssd).
    """
    telling = _Telling(run, link)
    handed_over: list[Span] = []
    while run.going():
        yield from run.sync_clock()
        sheet = run.open_round(draft_len)
        sheet.spans += handed_over
        proposal = _taken(ready or link.draft(sheet.requested_k), sheet)
        widths = fan_out.widths()[: len(proposal.tokens) + 1]
        link.prepare(widths, draft_len)
        run.begin(sheet, proposal)
        yield from telling.tell()
        outcome = run.verify(sheet)
        link.outcome(outcome)
        branches = link.branches()
        whole = len(proposal.tokens) == draft_len
        ready = conclude(run, sheet, branches, widths, outcome, fan_out if whole else None)
        kind: SpanKind = "wait" if branches.t1 > sheet.t1 else "handoff"
        handed_over = (
            [] if run.drain(sheet) else [Span(0, "main", kind, sheet.t1, run.clock(), sheet.index + 1)]
        )
        yield from telling.finish(sheet)
    yield from telling.tell()
