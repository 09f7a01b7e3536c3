"""AR, SD and SSD: three round loops over the same verification.

Each yields its events round by round, and has nothing running on the draft device while it waits to be resumed, so that a
race may pause it there.
"""

from __future__ import annotations

from collections.abc import Iterator

from specmon.core.decoders.run import Run
from specmon.core.drafters.base import Proposal
from specmon.core.drafters.link import DraftLink
from specmon.core.events import Event, Span, SpanKind

_NO_DRAFT = Proposal(tokens=())


def ar_rounds(run: Run) -> Iterator[Event]:
    """Autoregressive decoding: one token a round."""
    while run.going():
        sheet = run.open_round()
        run.verify(sheet, _NO_DRAFT)
        yield from run.close(sheet)


def sd_rounds(run: Run, link: DraftLink, draft_len: int) -> Iterator[Event]:
    """Speculative decoding: draft, then verify.

    Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding".
    """
    while run.going():
        sheet = run.open_round(draft_len)
        drafted = link.draft(sheet.requested_k)
        sheet.drafted(drafted)
        link.outcome(run.verify(sheet, drafted.proposal))
        yield from run.close(sheet)


def ssd_rounds(run: Run, link: DraftLink, draft_len: int, fan_out: tuple[int, ...]) -> Iterator[Event]:
    """Speculative speculative decoding: while the target verifies, the draft device prepares the next draft.

    It prepares one for each of fan_out[a] likely bonus tokens after each accepted_len a; when the outcome has none, it
    drafts from scratch.
    Source: Kumar et al. 2026, "Speculative Speculative Decoding" (code: tanishqkumar/ssd).
    """
    ready: Proposal | None = None
    handed_over: list[Span] = []
    while run.going():
        sheet = run.open_round(draft_len)
        sheet.spans += handed_over
        if ready is None:
            drafted = link.draft(sheet.requested_k)
            sheet.drafted(drafted)
            ready = drafted.proposal
        proposal = Proposal(
            tokens=ready.tokens[: sheet.requested_k],
            probs=ready.probs[: sheet.requested_k],
            features=ready.features,
        )
        widths = fan_out[: len(proposal.tokens) + 1]
        link.prepare(widths, draft_len)
        outcome = run.verify(sheet, proposal)
        link.outcome(outcome)
        verdict = link.verdict()
        sheet.settle(verdict, widths, has_successor=run.stop_reason is None)
        chosen = verdict.branches[verdict.hit] if verdict.hit is not None else None
        ready = chosen.proposal if chosen else None
        late = verdict.t1 is not None and verdict.t1 > verdict.received
        kind: SpanKind = "wait" if late else "handoff"
        handed_over = (
            [] if run.drain(sheet) else [Span(0, "main", kind, sheet.t1, run.clock(), sheet.index + 1)]
        )
        yield from run.close(sheet)
