"""Event streams as an engine would emit them, and small files made of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from specmon.core.events import (
    ArStep,
    Branch,
    ClockSync,
    DeviceBytes,
    DeviceInfo,
    Event,
    Gap,
    Header,
    Lane,
    Log,
    Marker,
    Prefill,
    PrefillChunk,
    Round,
    Sample,
    Sampling,
    Snapshot,
    Span,
    Telemetry,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.session.writer import SessionWriter

VOCAB = 49_152
K = 4


class Stream:
    """Draws rounds of one lane whose tokens, texts and times are as spread as real ones."""

    def __init__(self, seed: int = 0, *, fan_out: int = 0) -> None:
        self._random = random.Random(seed)
        self._fan_out = fan_out
        self._weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(VOCAB)))
        self._t = 5_000_000
        self._kv = 40
        self._ready: Branch | None = None

    def tokens(self, n: int) -> tuple[int, ...]:
        return tuple(self._random.choices(range(VOCAB), cum_weights=self._weights, k=n))

    def piece(self, token: int) -> str:
        letters = random.Random(token)
        word = "".join(letters.choice("etaoinshrdlucmfw") for _ in range(letters.randint(1, 7)))
        return " " * letters.randint(0, 1) + word

    def rounds(self, n: int) -> list[Round]:
        return [self._round(index) for index in range(n)]

    def _round(self, index: int) -> Round:
        rnd, t0 = self._random, self._t
        draft = self._ready.tokens if self._ready else self.tokens(K)
        accepted_len = next((i for i in range(K) if rnd.random() > 0.65), K)
        branches, hit = self._branches(accepted_len, t0)
        bonus = branches[hit].bonus if hit is not None else self.tokens(1)[0]
        assert bonus is not None
        emitted = (*draft[:accepted_len], bonus)
        self._kv += len(emitted)
        fallback_ns = 0 if self._ready else 1_800_000 + rnd.randrange(40_000)
        spans = self._spans(index, t0 + fallback_ns, fallback_ns)
        t1 = spans[0].end + 20_000 + rnd.randrange(3_000)
        self._t = t1
        self._ready = branches[hit] if hit is not None else None
        return Round(
            t=t1 + 4_000 + rnd.randrange(500),
            turn=1,
            index=index,
            t0=t0,
            t1=t1,
            requested_k=K,
            drafter="draft_model",
            draft=draft,
            draft_probs=tuple(round(rnd.random(), 4) for _ in draft),
            accepted_len=accepted_len,
            bonus=bonus,
            emitted=emitted,
            text=tuple(map(self.piece, emitted)),
            margin=round(rnd.expovariate(0.5), 3),
            kv_len=(self._kv, self._kv),
            fan_out=(self._fan_out,) * (K + 1) if self._fan_out else None,
            branches=branches,
            hit=hit,
            miss="rank" if branches and hit is None else None,
            fallback="draft_model" if branches and hit is None else None,
            spans=spans,
            bytes=(
                DeviceBytes(0, 76_000_000, self._kv * 23_040, 24),
                DeviceBytes(1, 9_000_000, self._kv * 1_536, 0),
            ),
            host_launches=7,
        )

    def _branches(self, accepted_len: int, t0: int) -> tuple[tuple[Branch, ...], int | None]:
        if not self._fan_out:
            return (), None
        ready_at = t0 + 2_100_000 + self._random.randrange(60_000)
        branches = tuple(
            Branch(a, bonus, rank + 1, round(self._random.random() / (rank + 1), 4), self.tokens(K), ready_at)
            for a in range(K)
            for rank, bonus in enumerate(self.tokens(self._fan_out))
        )
        wanted = [i for i, branch in enumerate(branches) if branch.accepted_len == accepted_len]
        hit = self._random.choice(wanted) if wanted and self._random.random() < 0.7 else None
        return branches, hit

    def _spans(self, index: int, start: int, fallback_ns: int) -> tuple[Span, ...]:
        verify_ns = 3_900_000 + self._random.randrange(60_000)
        end = start + verify_ns
        accept_end = end + 9_000 + self._random.randrange(900)
        spans = [
            Span(0, "target", "verify", start, end, index),
            Span(0, "target", "accept", end, accept_end, index),
        ]
        if fallback_ns:
            spans.append(Span(1, "draft", "draft", start - fallback_ns, start - 6_000, index))
        if self._fan_out:
            branch_ns = 2_000_000 + self._random.randrange(50_000)
            spans.append(Span(1, "draft", "branch_draft", start + 700, start + branch_ns, index + 1))
            spans.append(
                Span(1, "draft", "handoff", start + branch_ns, start + branch_ns + 11_000, index + 1)
            )
        return tuple(spans)


def small_events() -> list[Event]:
    """One event of every kind, and rounds that hit, miss and refer to each other."""
    return [
        Header(
            t=0, utc_start="2026-11-29T20:51:07+00:00", devices=(DeviceInfo(name="cpu:0", model="Some CPU"),)
        ),
        Lane(t=10, decoder="ssd", target="smollm2", drafter="draft-16m", devices=("cpu:0", "cpu:1")),
        Vocabulary(t=20, pieces={5: " a", 6: "é"}),
        Turn(
            t=30,
            prompt="Say \x1b[31mred\n",
            prompt_tokens=9,
            draft_len=4,
            fan_out=(1, 1, 1, 1, 1),
            sampling=Sampling(temperature=0.5),
            fan_out_budget=5,
        ),
        Prefill(t=40, t0=31, chunks=(PrefillChunk(0, 9, 31, 39),), token_one=5, text=" a"),
        *Stream(1, fan_out=1).rounds(12),
        Vocabulary(t=60_000_000, pieces={7: " c"}),
        Telemetry(t=60_000_001, device="cuda:0", power_w=312.5, throttle=("power",)),
        Sample(t=60_000_002, values={"requests_running": 1.0}),
        ClockSync(t=60_000_003, device="cuda:1", offset_ns=-12, bound_ns=300),
        Log(t=60_000_004, level="INFO", text="ready"),
        Marker(t=60_000_005, label="here"),
        Gap(t=60_000_006, count=3, reason="queue full"),
        Snapshot(t=60_000_007, counters={"rounds": 12}),
        ArStep(t=60_000_008, kv_len=84, steps=32, ns=2_900_000),
        TurnEnd(t=60_000_008, stop_reason="length", n_tokens=30, rounds=12),
    ]


@pytest.fixture
def events() -> list[Event]:
    return small_events()


@pytest.fixture
def stream() -> type[Stream]:
    return Stream


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write events to a file in frames of `frame_events`; `closed=False` leaves it as a kill would."""

    def write_session(
        events: list[Event], name: str = "a.session", *, frame_events: int = 100, closed: bool = True
    ) -> Path:
        path = tmp_path / name
        writer = SessionWriter(path)
        for number, event in enumerate(events, 1):
            writer.write(event)
            if number % frame_events == 0:
                writer.flush()
        writer.flush()
        if closed:
            writer.close()
        return path

    return write_session
