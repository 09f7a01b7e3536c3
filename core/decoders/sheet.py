"""A round while it is being made: collects spans, bytes and outcomes, then becomes a `Round` event."""

from __future__ import annotations

from dataclasses import dataclass, field

from specmon.core.drafters.base import Branches, Drafted, Prepared, Proposal, Settled, Work, both
from specmon.core.events import Branch, ClockSync, DeviceBytes, Log, MissReason, Round, Span, SpanKind

_PROBABILITY_DIGITS = 4  # what a screen can show; unrounded they would be half of a recording
_MARGIN_DIGITS = 3


@dataclass(kw_only=True)
class Sheet:
    """One round's notes.

    `begun`: when the target was started on it. `draft_device` indexes the lane's devices (0: both roles share one).
    `target_weight_bytes`: on each of the target's devices.
    `clocks`: how the draft device's was measured meanwhile.
    """

    index: int
    t0: int
    requested_k: int
    draft_device: int
    drafter: str | None = None
    t1: int = 0
    begun: int = 0
    proposal: Proposal = field(default_factory=lambda: Proposal(tokens=()))
    accepted_len: int = 0
    accepted_path: tuple[int, ...] | None = None
    bonus: int | None = None
    emitted: tuple[int, ...] = ()
    text: tuple[str, ...] = ()
    margin: float | None = None
    kv_len: int = 0
    fan_out: tuple[int, ...] | None = None
    branches: Branches | None = None
    hit: int | None = None
    miss: MissReason | None = None
    fallback: str | None = None
    spans: list[Span] = field(default_factory=list)
    target_weight_bytes: tuple[int, ...] = (0,)
    target_kv_bytes: int = 0
    target_handoff_bytes: int = 0
    target_launches: int | None = None
    draft_work: Work = field(default_factory=Work)
    draft_handoff_bytes: int = 0
    clocks: tuple[ClockSync | Log, ...] = ()

    def span(self, device: int, kind: SpanKind, start: int, end: int, for_round: int | None = None) -> None:
        if end > start:
            stream = "draft" if device and device == self.draft_device else "main"
            of = self.index if for_round is None else for_round
            self.spans.append(Span(device, stream, kind, start, end, of))

    def drafted(self, drafted: Drafted) -> None:
        """This round's draft was made now, from the confirmed text."""
        for start, end in drafted.prefill:
            self.span(self.draft_device, "prefill", start, end)
        self.span(self.draft_device, "draft", drafted.t0, drafted.t1)
        self.draft_work += drafted.work
        self.clocks += drafted.clocks

    def branched(self, branches: Branches, fan_out: tuple[int, ...]) -> None:
        """The branches prepared during this round."""
        self.fan_out, self.branches = fan_out, branches
        self.clocks += branches.clocks

    def succeeded(self, hit: int | None, miss: MissReason | None) -> None:
        """How the next round's draft is made: by the branch `hit`, or from scratch."""
        self.hit, self.miss = hit, miss
        self.fallback = self.drafter if hit is None else None

    def settle(self, settled: Settled) -> None:
        """The draft device took this round's outcome in."""
        assert self.branches is not None
        self.draft_work += settled.work
        for_round, t1 = self.index + 1, self.branches.t1
        self.span(self.draft_device, "branch_draft", self.branches.t0, t1, for_round)
        if self.draft_device:
            self.span(self.draft_device, "wait", t1, settled.received, for_round)

    @property
    def prepared(self) -> tuple[Prepared, ...]:
        return self.branches.prepared if self.branches else ()

    def event(self, *, lane: int, turn: int) -> Round:
        return Round(
            t=self.t1,
            lane=lane,
            turn=turn,
            index=self.index,
            t0=self.t0,
            t1=self.t1,
            requested_k=self.requested_k,
            drafter=(self.proposal.drafter or self.drafter) if self.proposal.tokens else None,
            draft=self.proposal.tokens,
            draft_probs=tuple(round(p, _PROBABILITY_DIGITS) for p in self.proposal.probs),
            parents=self.proposal.parents,
            accepted_path=self.accepted_path,
            accepted_len=self.accepted_len,
            bonus=self.bonus,
            emitted=self.emitted,
            text=self.text,
            margin=None if self.margin is None else round(self.margin, _MARGIN_DIGITS),
            kv_len=(self.kv_len,),
            fan_out=self.fan_out,
            branches=tuple(map(_branch, self.prepared)),
            hit=self.hit,
            miss=self.miss,
            fallback=self.fallback,
            features=self.proposal.features,
            spans=tuple(sorted(self.spans, key=lambda span: (span.start, span.device))),
            bytes=self._bytes(),
            host_launches=both(self.target_launches, self.draft_work.launches),
        )

    def _bytes(self) -> tuple[DeviceBytes, ...]:
        first, *others = self.target_weight_bytes
        kv, handoff, work = self.target_kv_bytes, self.target_handoff_bytes, self.draft_work
        shared = (DeviceBytes(i, weights, 0, 0) for i, weights in enumerate(others, start=1))
        if not self.draft_device:
            return DeviceBytes(0, first + work.weight_bytes, kv + work.kv_bytes, 0), *shared
        draft = DeviceBytes(self.draft_device, work.weight_bytes, work.kv_bytes, self.draft_handoff_bytes)
        return DeviceBytes(0, first, kv, handoff), *shared, draft


def _branch(prepared: Prepared) -> Branch:
    return Branch(
        prepared.accepted_len,
        prepared.bonus,
        prepared.rank,
        None if prepared.probability is None else round(prepared.probability, _PROBABILITY_DIGITS),
        prepared.proposal.tokens if prepared.proposal else (),
        prepared.ready_at,
    )
