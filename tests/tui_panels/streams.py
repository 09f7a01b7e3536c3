"""Whole event streams with round times, made from a seed, for tests of what panels draw."""

from __future__ import annotations

import random
from collections.abc import Sequence

from specmon.core.events import (
    AnyEvent,
    Branch,
    Decoder,
    DeviceBytes,
    DeviceInfo,
    Header,
    Lane,
    Prefill,
    PrefillChunk,
    Round,
    Span,
    Telemetry,
    Turn,
    TurnEnd,
    Vocabulary,
)

US = 1_000
VERIFY = 3_900 * US
STEP = 450 * US  # one draft forward
ACCEPT = 22 * US
HANDOFF = 12 * US
DRAFT = 4 * STEP
BRANCH = 1_890 * US
FAN_OUT = (5, 4, 3, 2, 2)

WORDS = [
    "def",
    " merge",
    "(",
    "a",
    ",",
    " b",
    "):",
    "\n",
    "    ",
    "out",
    " =",
    " []",
    " while",
    " i",
    " <",
    " len",
]


class StreamBuilder:
    """Builds one lane of a stream: `header()`, `turn()`, rounds, `end()`; `events` is the result."""

    def __init__(
        self, decoder: Decoder = "ssd", *, seed: int = 0, lane: int = 0, words: Sequence[str] = WORDS
    ) -> None:
        self.decoder: Decoder = decoder
        self.k = 0 if decoder == "ar" else 4
        self.random = random.Random(seed)
        self.lane = lane
        self.words = list(words)
        self.events: list[AnyEvent] = []
        self.t = 0
        self.kv = 0
        self.number = 0
        self.index = 0
        self.emitted = 0
        self.ready: tuple[int, ...] | None = None  # the next round's draft, where a branch hit
        self.planned: int | None = None  # the next round's accepted_len, where its draft is fixed

    def header(self, ceiling: float | None = 4.39e12) -> StreamBuilder:
        """A header with two GPUs; `ceiling` is their read ceiling in bytes/s."""
        devices = tuple(
            DeviceInfo(name=f"cuda:{i}", model="H200", llc_bytes=50_000_000, read_ceiling=ceiling)
            for i in (0, 1)
        )
        source = "read of 1 GiB, median of 5, at 20:51 UTC"
        self.events.append(
            Header(t=0, devices=devices, ceiling_source=source, utc_start="2026-11-29T20:51:00Z")
        )
        pieces = dict(enumerate(self.words))
        self.events.append(Vocabulary(t=0, lane=self.lane, pieces=pieces))
        return self.lane_event()

    def lane_event(self) -> StreamBuilder:
        """The lane alone, for the further lanes of a race."""
        plain = self.decoder == "ar"
        lane = Lane(
            t=self.t,
            lane=self.lane,
            decoder=self.decoder,
            target="Qwen2.5-7B",
            drafter=None if plain else "Qwen2.5-0.5B",
            drafter_kind=None if plain else "draft_model",
            recipe="bf16",
            backend="triton-1",
            devices=("cuda:0",) if plain else ("cuda:0", "cuda:1"),
            target_weight_bytes=14_140_000_000,
            draft_weight_bytes=None if plain else 900_000_000,
            kv_bytes_per_token=57_344,
            draft_kv_bytes_per_token=None if plain else 12_288,
            context_length=32_768,
        )
        self.events.append(lane)
        return self

    def turn(
        self, prompt: str = "Merge two sorted lists.", prompt_tokens: int = 84, first: str = "def"
    ) -> StreamBuilder:
        """Start a turn and prefill it."""
        self.kv, self.index, self.emitted, self.ready, self.planned = prompt_tokens, 0, 0, None, None
        fan_out = FAN_OUT if self.decoder == "ssd" else None
        self.events.append(
            Turn(
                t=self.t,
                lane=self.lane,
                turn=self.number,
                prompt=prompt,
                prompt_tokens=prompt_tokens,
                draft_len=self.k,
                fan_out=fan_out,
                max_new_tokens=1_024,
            )
        )
        t0, self.t = self.t, self.t + 41_000 * US
        chunk = PrefillChunk(0, prompt_tokens, t0, self.t)
        spans = (Span(0, "main", "prefill", t0, self.t, 0),)
        self.events.append(
            Prefill(
                t=self.t,
                lane=self.lane,
                turn=self.number,
                t0=t0,
                chunks=(chunk,),
                token_one=0,
                text=first,
                spans=spans,
            )
        )
        return self

    def rounds(self, count: int) -> StreamBuilder:
        """Add rounds with random acceptance and, for SSD, hits and misses."""
        return self.play([(self._acceptance(), self.random.random() < 0.86) for _ in range(count)])

    def play(self, outcomes: Sequence[tuple[int, bool]]) -> StreamBuilder:
        """Add a round for each (accepted_len, whether a branch was prepared for its outcome)."""
        following = [accepted for accepted, _ in outcomes[1:]] + [self._acceptance()]
        for (accepted, hit), accepted_next in zip(outcomes, following, strict=True):
            self._round(accepted if self.planned is None else self.planned, hit, accepted_next)
        return self

    def _acceptance(self) -> int:
        accepted = 0
        while accepted < self.k and self.random.random() < 0.65:
            accepted += 1
        return accepted

    def _truth(self, position: int) -> int:
        """The target's token after `position` tokens: the same in every lane."""
        return random.Random(f"{self.number} {position}").randrange(len(self.words))

    def _draft(self, position: int, accepted_len: int) -> tuple[int, ...]:
        """A draft of which the target will accept `accepted_len` tokens."""
        truth = [self._truth(position + i) for i in range(accepted_len)]
        if accepted_len < self.k:
            truth.append((self._truth(position + accepted_len) + 1) % len(self.words))
        return (*truth, *(self._token() for _ in range(self.k - len(truth))))

    def _round(self, accepted_len: int, hit: bool, accepted_next: int) -> None:
        position = 1 + self.emitted
        draft = self.ready if self.ready is not None else self._draft(position, accepted_len)
        emitted = tuple(self._truth(position + i) for i in range(accepted_len + 1))
        bonus = emitted[-1]
        t0 = self.t
        spans = self._spans()
        t1 = self.t
        branches: tuple[Branch, ...] = ()
        if self.decoder == "ssd":
            served = self._draft(position + len(emitted), accepted_next) if hit else None
            branches = self._branches(accepted_len, bonus, served, t0)
        which = next(
            (i for i, b in enumerate(branches) if (b.accepted_len, b.bonus) == (accepted_len, bonus)), None
        )
        self.kv += len(emitted)
        self.emitted += len(emitted)
        self.events.append(
            Round(
                t=t1,
                lane=self.lane,
                turn=self.number,
                index=self.index,
                t0=t0,
                t1=t1,
                requested_k=self.k,
                drafter="draft_model" if self.k else None,
                draft=draft,
                draft_probs=tuple(round(0.5 + 0.5 * self.random.random(), 2) for _ in draft),
                accepted_len=accepted_len,
                bonus=bonus,
                emitted=emitted,
                text=tuple(self.words[token] for token in emitted),
                margin=1.5,
                kv_len=(self.kv, self.kv) if self.k else (self.kv,),
                fan_out=FAN_OUT if branches else None,
                branches=branches,
                hit=which,
                miss="rank" if branches and which is None else None,
                fallback="draft_model" if branches and which is None else None,
                spans=spans,
                bytes=self._bytes(),
                host_launches=3,
            )
        )
        self.ready = branches[which].tokens if which is not None else None
        self.planned = accepted_next if which is not None else None
        self.index += 1

    def telemetry(self, fraction: float | None = 0.75) -> StreamBuilder:
        """A telemetry sample of both devices."""
        for device in ("cuda:0", "cuda:1"):
            self.events.append(
                Telemetry(
                    t=self.t,
                    lane=self.lane,
                    turn=self.number,
                    device=device,
                    sm_clock_mhz=1_980,
                    power_w=612.0,
                    temperature_c=61,
                    throttle=(),
                    dram_fraction=fraction,
                    note=None if fraction is not None else "counter failed",
                )
            )
        return self

    def end(self) -> StreamBuilder:
        """End the turn; the last round has no successor, so hit and miss are taken back."""
        last = self.events[-1]
        if isinstance(last, Round) and self.decoder == "ssd":
            fields = {name: getattr(last, name) for name in last.__struct_fields__}
            self.events[-1] = Round(**{**fields, "hit": None, "miss": None, "fallback": None})
        self.events.append(
            TurnEnd(
                t=self.t,
                lane=self.lane,
                turn=self.number,
                stop_reason="cancelled",
                n_tokens=1 + self.emitted,
                rounds=self.index,
            )
        )
        self.number += 1
        return self

    def _token(self) -> int:
        return self.random.randrange(len(self.words))

    def _branches(
        self, accepted_len: int, bonus: int, served: tuple[int, ...] | None, t0: int
    ) -> tuple[Branch, ...]:
        """Branches for every accepted_len; the true outcome has one, with `served`, unless that is None."""
        branches = []
        for a, n in enumerate(FAN_OUT):
            guesses = self.random.sample([token for token in range(len(self.words)) if token != bonus], n)
            if served is not None and a == accepted_len:
                guesses[self.random.randrange(n)] = bonus
            for rank, guess in enumerate(guesses, start=1):
                true = served is not None and (a, guess) == (accepted_len, bonus)
                tokens = served if true and served else tuple(self._token() for _ in range(self.k))
                branches.append(Branch(a, guess, rank, 0.5 / rank, tokens, t0 + BRANCH))
        return tuple(branches)

    def _spans(self) -> tuple[Span, ...]:
        """Spans of the next round; moves the clock to its end."""
        t, r = self.t, self.index
        spans = []
        drafts_first = self.k and (self.decoder == "sd" or self.ready is None)
        if drafts_first:
            spans.append(Span(1, "draft", "draft", t, t + DRAFT, r))
            spans.append(Span(0, "main", "wait", t, t + DRAFT, r))
            t += DRAFT
        spans.append(Span(0, "main", "verify", t, t + VERIFY, r))
        if self.decoder == "ssd":
            spans.append(Span(1, "draft", "branch_draft", t, t + BRANCH, r + 1))
            spans.append(Span(1, "draft", "wait", t + BRANCH, t + VERIFY + ACCEPT, r + 1))
        t += VERIFY
        spans.append(Span(0, "main", "accept", t, t + ACCEPT, r))
        t += ACCEPT
        if self.k:
            spans.append(Span(1, "draft", "handoff", t, t + HANDOFF, r))
            t += HANDOFF
        self.t = t
        return tuple(spans)

    def _bytes(self) -> tuple[DeviceBytes, ...]:
        target = DeviceBytes(0, 14_140_000_000, self.kv * 57_344, 0)
        if not self.k:
            return (target,)
        return (target, DeviceBytes(1, 4_500_000_000, self.kv * 12_288, 64))


def ssd_stream(rounds: int = 64, *, seed: int = 0, words: Sequence[str] = WORDS) -> list[AnyEvent]:
    """A stream with one SSD turn that still runs."""
    return StreamBuilder("ssd", seed=seed, words=words).header().turn().rounds(rounds).telemetry().events


def race_stream(rounds: int = 40, decoders: Sequence[Decoder] = ("ar", "sd", "ssd")) -> list[AnyEvent]:
    """Lanes one after the other on one clock, all with the same output as far as they get."""
    events: list[AnyEvent] = []
    t = 0
    for lane, decoder in enumerate(decoders):
        builder = StreamBuilder(decoder, lane=lane, seed=lane)
        builder.t = t
        builder = builder.header() if lane == 0 else builder.lane_event()
        events += builder.turn().rounds(rounds).end().events
        t = builder.t
    return events
