"""Event streams built from a plan of outcomes, with round times that can be added up by hand.

The text is fixed: the token at position p is 1000 + p whatever the decoder, so lanes agree. Times in ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from specmon.core.events import (
    AnyEvent,
    Branch,
    Decoder,
    DeviceBytes,
    DeviceInfo,
    Header,
    Lane,
    MissReason,
    Prefill,
    PrefillChunk,
    Round,
    Sampling,
    Span,
    StopReason,
    Turn,
    TurnEnd,
)
from specmon.core.metrics.ledger import Ledger

settings.register_profile("metrics", deadline=None, max_examples=50)
settings.load_profile("metrics")

WRONG = 500_000  # added to a token that the target does not agree with
MS = 1_000_000


@dataclass(frozen=True)
class Plan:
    """A round: draft_len, how much of it is accepted, and for SSD whether its outcome was prepared."""

    accepted: int = 0
    k: int = 4
    outcome: str = "hit"  # hit, rank, late or none; ignored in AR, SD and the last round


@dataclass(kw_only=True)
class Config:
    decoder: Decoder = "ssd"
    devices: tuple[str, ...] = ("cuda:0", "cuda:1")
    ceiling: float | None = 1e12
    llc_bytes: int | None = None
    draft_ns: int = 2 * MS
    verify_ns: int = 4 * MS
    accept_ns: int = 100_000
    branch_ns: int = 3 * MS
    late_ns: int = 500_000  # how long a late branch draft outlives its round
    target_bytes: int = 2_000_000_000
    kv_bytes: int = 1_000_000
    draft_bytes: int = 500_000_000
    prompt_tokens: int = 10
    prefill_ns: int = 20 * MS
    temperature: float = 0.0
    recipe: str = "bf16"
    stop_after: int | None = None  # tokens of the last round that are emitted
    stop_reason: StopReason = "length"
    max_new_tokens: int = 0
    lane: int = 0
    turn: int = 0
    reused_tokens: int = 0


@dataclass
class Clock:
    now: int = 0


@dataclass
class Builder:
    """Makes the events of one turn; a race asks several for their rounds in turns."""

    plans: Sequence[Plan]
    config: Config
    clock: Clock = field(default_factory=Clock)
    n_tokens: int = 1
    n_rounds: int = 0

    def lane_event(self) -> Lane:
        c = self.config
        return Lane(
            t=self.clock.now,
            lane=c.lane,
            decoder=c.decoder,
            target="target",
            drafter=None if c.decoder == "ar" else "draft",
            drafter_kind=None if c.decoder == "ar" else "draft_model",
            recipe=c.recipe,
            backend="reference-1",
            devices=c.devices,
            target_weight_bytes=c.target_bytes,
            draft_weight_bytes=c.draft_bytes,
            kv_bytes_per_token=c.kv_bytes,
            draft_kv_bytes_per_token=0,
        )

    def start(self) -> list[AnyEvent]:
        c, t0 = self.config, self.clock.now
        self.clock.now += c.prefill_ns
        t1 = self.clock.now
        turn = Turn(
            t=t0,
            lane=c.lane,
            turn=c.turn,
            prompt="hello",
            prompt_tokens=c.prompt_tokens,
            reused_tokens=c.reused_tokens,
            draft_len=0 if c.decoder == "ar" else 4,
            sampling=Sampling(temperature=c.temperature),
            max_new_tokens=c.max_new_tokens,
        )
        chunks = (PrefillChunk(c.reused_tokens, c.prompt_tokens - c.reused_tokens, t0, t1),)
        token = 1000 + c.prompt_tokens
        prefill = Prefill(t=t1, lane=c.lane, turn=c.turn, t0=t0, chunks=chunks, token_one=token, text="<1>")
        return [turn, prefill]

    def rounds(self) -> Iterator[Round]:
        ready = False
        late = False
        for index, plan in enumerate(self.plans):
            yield self._round(index, plan, ready, late)
            speculates = self.config.decoder == "ssd" and index + 1 < len(self.plans)
            ready = speculates and plan.outcome == "hit"
            late = speculates and plan.outcome == "late"

    def end(self) -> TurnEnd:
        c = self.config
        return TurnEnd(
            t=self.clock.now,
            lane=c.lane,
            turn=c.turn,
            stop_reason=c.stop_reason,
            n_tokens=self.n_tokens,
            rounds=self.n_rounds,
        )

    def _draft(self, index: int, position: int) -> tuple[int, ...]:
        plan = self.plans[index]
        k = 0 if self.config.decoder == "ar" else plan.k
        return tuple(1000 + position + i + (0 if i < plan.accepted else WRONG) for i in range(k))

    def _round(self, index: int, plan: Plan, ready: bool, late: bool) -> Round:
        c = self.config
        last = index + 1 == len(self.plans)
        draft = self._draft(index, c.prompt_tokens + self.n_tokens)
        accepted = min(plan.accepted, len(draft))
        first = 1000 + c.prompt_tokens + self.n_tokens
        whole = tuple(range(first, first + accepted + 1))
        emitted = whole[: c.stop_after] if last and c.stop_after is not None else whole
        t0 = self.clock.now
        spans, t1 = self._spans(index, t0, bool(draft), ready, late)
        kv_before = c.prompt_tokens + self.n_tokens - 1
        self.n_tokens += len(emitted)
        self.n_rounds += 1
        self.clock.now = t1
        fields: dict[str, Any] = {}
        if c.decoder == "ssd":
            fields = self._speculation(index, plan, accepted, whole[-1], t0, last)
        return Round(
            t=t1,
            lane=c.lane,
            turn=c.turn,
            index=index,
            t0=t0,
            t1=t1,
            requested_k=len(draft),
            drafter="draft_model" if draft else None,
            draft=draft,
            accepted_len=accepted,
            bonus=whole[-1],
            emitted=emitted,
            text=tuple(f"<{token}>" for token in emitted),
            kv_len=(kv_before + accepted + 1,),
            spans=spans,
            bytes=(
                DeviceBytes(0, c.target_bytes, c.kv_bytes * kv_before, 0),
                *([DeviceBytes(len(c.devices) - 1, c.draft_bytes, 0, 64)] if draft else []),
            ),
            host_launches=3,
            **fields,
        )

    def _spans(
        self, index: int, t0: int, drafts: bool, ready: bool, late: bool
    ) -> tuple[tuple[Span, ...], int]:
        c = self.config
        draft_device = len(c.devices) - 1
        spans = []
        t = t0
        if late:
            t += c.late_ns
        if drafts and not ready:
            spans.append(Span(draft_device, "draft", "draft", t, t + c.draft_ns, index))
            t += c.draft_ns
        spans.append(Span(0, "main", "verify", t, t + c.verify_ns, index))
        end = t + c.verify_ns
        spans.append(Span(0, "main", "accept", end, end + c.accept_ns, index))
        if c.decoder == "ssd":
            outlives = self.plans[index].outcome == "late" and index + 1 < len(self.plans)
            branch_end = end + c.accept_ns + c.late_ns if outlives else t + c.branch_ns
            spans.append(Span(draft_device, "draft", "branch_draft", t, branch_end, index + 1))
        return tuple(spans), end + c.accept_ns

    def _speculation(
        self, index: int, plan: Plan, accepted: int, bonus: int, t0: int, last: bool
    ) -> dict[str, Any]:
        """Two branches for each accepted_len, the real outcome first among its own unless missed by rank."""
        has_outcome = not last and plan.outcome in ("hit", "late")
        branches = []
        hit = None
        for a in range(plan.k + 1):
            for rank in (1, 2):
                real = has_outcome and a == accepted and rank == 1
                tokens: tuple[int, ...] = (1, 2, 3, 4)
                if real and plan.outcome == "hit":
                    hit = len(branches)
                    after = self.config.prompt_tokens + self.n_tokens
                    tokens = self._draft(index + 1, after)
                ready_at = None if real and plan.outcome == "late" else t0 + self.config.branch_ns
                key = bonus if real else WRONG + 10 * a + rank
                branches.append(Branch(a, key, rank, 0.5, tokens, ready_at))
        if last:
            return {"branches": tuple(branches)}
        if plan.outcome == "none":
            return {"miss": "none", "fallback": "draft_model"}
        miss: MissReason | None = None if hit is not None else ("late" if plan.outcome == "late" else "rank")
        fallback = None if miss is None else "draft_model"
        return {"branches": tuple(branches), "hit": hit, "miss": miss, "fallback": fallback}


def header(config: Config) -> Header:
    devices = tuple(
        DeviceInfo(name=name, model="test", llc_bytes=config.llc_bytes, read_ceiling=config.ceiling)
        for name in dict.fromkeys(config.devices)
    )
    return Header(t=0, devices=devices)


def build_stream(plans: Sequence[Plan], **config: Any) -> list[AnyEvent]:
    """A whole stream of one turn: header, lane, turn, prefill, rounds, end."""
    builder = Builder(plans, Config(**config))
    events: list[AnyEvent] = [header(builder.config), builder.lane_event(), *builder.start()]
    return [*events, *builder.rounds(), builder.end()]


def build_race(
    lanes: Sequence[tuple[Sequence[Plan], dict[str, Any]]], burst: int = 8, switch_ns: int = 50_000
) -> list[AnyEvent]:
    """Lanes that decode in bursts, one after the other, on one clock."""
    clock = Clock()
    builders = [Builder(plans, Config(lane=i, **config), clock) for i, (plans, config) in enumerate(lanes)]
    events: list[AnyEvent] = [header(builders[0].config), *(b.lane_event() for b in builders)]
    for builder in builders:
        events += builder.start()
    running = [(builder, builder.rounds()) for builder in builders]
    while running:
        builder, rounds = running.pop(0)
        taken = [r for _, r in zip(range(burst), rounds, strict=False)]
        clock.now += switch_ns
        events += taken
        if len(taken) == burst:
            running.append((builder, rounds))
        else:
            events.append(builder.end())
    return events


def feed(events: Sequence[AnyEvent]) -> Ledger:
    ledger = Ledger()
    for event in events:
        ledger.feed(event)
    return ledger


@st.composite
def streams(draw: st.DrawFn) -> list[AnyEvent]:
    """Random valid streams of any decoder, on one or two devices, that may stop inside their last round."""
    k = draw(st.integers(1, 5))
    plan = st.builds(
        Plan,
        accepted=st.integers(0, k),
        k=st.just(k),
        outcome=st.sampled_from(["hit", "rank", "late", "none"]),
    )
    plans = draw(st.lists(plan, min_size=1, max_size=25))
    decoder = draw(st.sampled_from(["ar", "sd", "ssd"]))
    accepted = 0 if decoder == "ar" else plans[-1].accepted
    verify_ns = draw(st.integers(1, 5 * MS))
    return build_stream(
        plans,
        decoder=decoder,
        devices=draw(st.sampled_from([("cuda:0",), ("cuda:0", "cuda:1")]))
        if decoder != "ssd"
        else ("a", "b"),
        stop_after=draw(st.integers(1, accepted + 1)),
        draft_ns=draw(st.integers(1, 5 * MS)),
        verify_ns=verify_ns,
        accept_ns=draw(st.integers(0, MS)),
        branch_ns=draw(st.integers(1, verify_ns)),
        late_ns=draw(st.integers(1, MS)),
    )


@pytest.fixture(scope="session")
def plan() -> type[Plan]:
    return Plan


@pytest.fixture(scope="session")
def stream() -> Callable[..., list[AnyEvent]]:
    return build_stream


@pytest.fixture(scope="session")
def race_stream() -> Callable[..., list[AnyEvent]]:
    return build_race


@pytest.fixture(scope="session")
def ledger_of() -> Callable[[Sequence[AnyEvent]], Ledger]:
    return feed


@pytest.fixture(scope="session")
def any_stream() -> st.SearchStrategy[list[AnyEvent]]:
    return streams()
