"""Turns made up for the benchmarks' tests: any tokens, any times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from specmon.core.bench.prompts import BenchPrompt
from specmon.core.engine.messages import Request
from specmon.core.events import DeviceInfo, Lane, Prefill, Round, Span, Turn, TurnEnd
from specmon.core.metrics.turn import TurnMetrics

MS = 1_000_000
CPU = DeviceInfo(name="cpu:0", model="a CPU", read_ceiling=1e10)


def make_turn(
    tokens: Sequence[int] = tuple(range(9)),
    *,
    prefill_ms: float = 10.0,
    round_ms: float = 2.0,
    draft_len: int = 0,
    stop: str = "length",
    launches: int | None = None,
    **lane: Any,
) -> TurnMetrics:
    """A finished turn of `tokens`: AR, or with a `draft_len` drafts that are all accepted."""
    decoder = "sd" if draft_len else "ar"
    described = Lane(
        t=0,
        **{
            "decoder": decoder,
            "target": "tiny",
            "drafter": "n-gram" if draft_len else None,
            "recipe": "fp32",
            "backend": "reference-1",
            "devices": ("cpu:0",),
            "target_weight_bytes": 1_000_000,
            "kv_bytes_per_token": 0,
            **lane,
        },
    )
    turn = TurnMetrics(Turn(t=0, prompt="p", prompt_tokens=5, draft_len=draft_len), described, (CPU,))
    now = int(prefill_ms * MS)
    turn.feed_prefill(Prefill(t=now, t0=0, chunks=(), token_one=tokens[0], text=f"<{tokens[0]}>"))
    step = draft_len + 1
    for index, at in enumerate(range(1, len(tokens), step)):
        emitted = tuple(tokens[at : at + step])
        t0, now = now, now + int(round_ms * MS)
        turn.feed_round(
            Round(
                t=now,
                index=index,
                t0=t0,
                t1=now,
                requested_k=draft_len,
                drafter="ngram" if draft_len else None,
                draft=emitted[:-1],
                accepted_len=len(emitted) - 1,
                bonus=emitted[-1],
                emitted=emitted,
                text=tuple(f"<{token}>" for token in emitted),
                host_launches=launches,
            )
        )
    end = TurnEnd(t=now, stop_reason=stop, n_tokens=len(tokens), rounds=turn.n_rounds)  # type: ignore[arg-type]
    turn.feed_end(end)
    return turn


def prompt(name: str) -> BenchPrompt:
    """A short prompt whose text is its name."""
    return BenchPrompt(name=name, set="evaluation", kind="prose", length="short", text=name)


class FakeLanes:
    """Decodes by script: `turns` gives the turn of (lane, prompt's text); every call is kept in `asked`."""

    def __init__(self, turns: Any) -> None:
        self._turns = turns
        self.asked: list[tuple[int, str]] = []
        self.draft_lens: list[int | None] = []

    def __call__(self, lane: int, request: Request) -> TurnMetrics:
        text = request.messages[0][1]
        self.asked.append((lane, text))
        self.draft_lens.append(request.draft_len)
        if request.raw:
            return make_turn((1,))
        turn: TurnMetrics = self._turns(lane, text)
        return turn


def timed_turn(
    decoder: str,
    draft_len: int = 0,
    tokens: Sequence[int] = tuple(range(13)),
    *,
    draft_ms: float = 0.25,
    verify_ms: float = 1.0,
    branch_ms: float = 0.5,
    sync_ms: float = 0.25,
    other_ms: float = 0.25,
    devices: tuple[str, ...] = ("cuda:0", "cuda:1"),
) -> TurnMetrics:
    """`make_turn` whose rounds have spans: `draft_ms` a token, and `other_ms` after verification; SSD hits every time."""
    plain = make_turn(tokens, draft_len=draft_len, decoder=decoder, devices=devices)
    turn = TurnMetrics(plain.turn, plain.lane, (CPU,) * len(devices))
    assert plain.prefill is not None
    assert plain.end is not None
    turn.feed_prefill(plain.prefill)
    now, ssd, apart = plain.prefill.t, decoder == "ssd", len(devices) - 1
    for round_ in plain.rounds:
        t0, spans = now, []
        if ssd and round_.index:
            now += int(sync_ms * MS)
        elif draft_len:
            now += int(draft_len * draft_ms * MS)
            spans.append(Span(apart, "draft", "draft", t0, now, round_.index))
        spans.append(Span(0, "main", "verify", now, now + int(verify_ms * MS), round_.index))
        if ssd:
            end = now + int(branch_ms * MS)
            spans.append(Span(apart, "draft", "branch_draft", now, end, round_.index + 1))
        now += int((verify_ms + other_ms) * MS)
        hit = 0 if ssd and round_.index + 1 < plain.n_rounds else None
        turn.feed_round(msgspec.structs.replace(round_, t=now, t0=t0, t1=now, spans=tuple(spans), hit=hit))
    turn.feed_end(plain.end)
    return turn
