"""How a `Round` lies in a line: one positional array in which what repeats costs little."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from specmon.core.events import Branch, DeviceBytes, MissReason, Round, Span, SpanKind

Ids = tuple[int | None, ...]
_Probability = int | float | None  # an int counts ten-thousandths
_SpanRow = tuple[int, str, SpanKind, int, int, int]


class Previous(msgspec.Struct, frozen=True):
    """What the next round of a lane may refer to: where the last one ended, and its hit's tokens."""

    t1: int
    hit_tokens: Ids | None

    @classmethod
    def of(cls, event: Round) -> Previous:
        """Remember a round."""
        hit = event.hit
        is_inside = hit is not None and 0 <= hit < len(event.branches)
        return cls(event.t1, event.branches[hit].tokens if hit is not None and is_inside else None)


class BranchColumns(msgspec.Struct, array_like=True):
    """All branches of a round, a column a field.

    One `ready_at` stands for all where they are equal, and counts from `t0`; `tokens` is () where no branch
    has any.
    """

    accepted_len: list[int]
    rank: list[int]
    tokens: tuple[tuple[int, ...], ...]
    ready_at: int | list[int | None] | None
    bonus: list[int | None]
    probability: list[_Probability]


class WireRound(msgspec.Struct, array_like=True, tag="Round"):
    """A `Round` as it is written, field for field in the same order; new fields go to the end with a default.

    `t`, `t1` and `ready_at` count from `t0`; a span's start from the end of the one before it on its
    device, or from `t0`, its end from its start, its round from `index`. None means: for `t0` the lane's
    previous `t1`, for `draft` the branch that hit, for `emitted` the accepted chain and the bonus, for
    `branches` none.
    """

    t: int
    lane: int
    turn: int
    index: int
    t0: int | None
    t1: int
    requested_k: int
    drafter: str | None
    draft: Ids | None
    draft_probs: list[_Probability]
    parents: tuple[int, ...] | None
    accepted_path: tuple[int, ...] | None
    accepted_len: int
    bonus: int | None
    emitted: Ids | None
    text: tuple[str, ...]
    margin: float | None
    kv_len: tuple[int, ...]
    fan_out: tuple[int, ...] | None
    branches: BranchColumns | None
    hit: int | None
    miss: MissReason | None
    fallback: str | None
    features: Literal["real", "predicted"] | None
    spans: list[_SpanRow]
    bytes: tuple[DeviceBytes, ...]
    host_launches: int | None
    discarded: bool


WIRE_LENGTH = len(WireRound.__struct_fields__) + 1  #: items in a line, its tag included


def _chain_emitted(draft: Ids, accepted_len: int, bonus: int | None) -> Ids:
    accepted = draft[: max(accepted_len, 0)]
    return accepted if bonus is None else (*accepted, bonus)


def to_wire(event: Round, previous: Previous | None) -> WireRound:
    """Pack a round, leaving out what `previous`, the one before it in its lane, says already."""
    t0, index = event.t0, event.index
    continues = previous is not None and previous.t1 == t0
    is_hit = previous is not None and previous.hit_tokens is not None and previous.hit_tokens == event.draft
    plain = event.emitted == _chain_emitted(event.draft, event.accepted_len, event.bonus)
    return WireRound(
        event.t - t0,
        event.lane,
        event.turn,
        index,
        None if continues else t0,
        event.t1 - t0,
        event.requested_k,
        event.drafter,
        None if is_hit else event.draft,
        _pack_probabilities(event.draft_probs),
        event.parents,
        event.accepted_path,
        event.accepted_len,
        event.bonus,
        None if plain else event.emitted,
        event.text,
        event.margin,
        event.kv_len,
        event.fan_out,
        _pack_branches(event.branches, t0),
        event.hit,
        event.miss,
        event.fallback,
        event.features,
        _pack_spans(event.spans, t0, index),
        event.bytes,
        event.host_launches,
        event.discarded,
    )


def from_wire(wire: WireRound, previous: Previous | None) -> Round:
    """Unpack a round. Raises ValueError where it needs a `previous` that is not there, or is inconsistent."""
    t0 = wire.t0
    if t0 is None:
        if previous is None:
            raise ValueError("a round refers to one that is missing")
        t0 = previous.t1
    draft = wire.draft
    if draft is None:
        if previous is None or previous.hit_tokens is None:
            raise ValueError("a round refers to a branch that is missing")
        draft = previous.hit_tokens
    emitted = wire.emitted
    if emitted is None:
        emitted = _chain_emitted(draft, wire.accepted_len, wire.bonus)
    index = wire.index
    return Round(
        t=t0 + wire.t,
        lane=wire.lane,
        turn=wire.turn,
        index=index,
        t0=t0,
        t1=t0 + wire.t1,
        requested_k=wire.requested_k,
        drafter=wire.drafter,
        draft=draft,
        draft_probs=tuple(map(_unpack_probability, wire.draft_probs)),
        parents=wire.parents,
        accepted_path=wire.accepted_path,
        accepted_len=wire.accepted_len,
        bonus=wire.bonus,
        emitted=emitted,
        text=wire.text,
        margin=wire.margin,
        kv_len=wire.kv_len,
        fan_out=wire.fan_out,
        branches=_unpack_branches(wire.branches, t0),
        hit=wire.hit,
        miss=wire.miss,
        fallback=wire.fallback,
        features=wire.features,
        spans=_unpack_spans(wire.spans, t0, index),
        bytes=wire.bytes,
        host_launches=wire.host_launches,
        discarded=wire.discarded,
    )


def _pack_spans(spans: tuple[Span, ...], t0: int, index: int) -> list[_SpanRow]:
    ends: dict[int, int] = {}
    rows = []
    for span in spans:
        start, end = span.start, span.end
        gap = start - ends.get(span.device, t0)
        rows.append((span.device, span.stream, span.kind, gap, end - start, span.for_round - index))
        ends[span.device] = end
    return rows


def _unpack_spans(rows: list[_SpanRow], t0: int, index: int) -> tuple[Span, ...]:
    ends: dict[int, int] = {}
    spans = []
    for device, stream, kind, gap, length, ahead in rows:
        start = ends.get(device, t0) + gap
        ends[device] = end = start + length
        spans.append(Span(device, stream, kind, start, end, index + ahead))
    return tuple(spans)


def _pack_probabilities(values: Iterable[float | None]) -> list[_Probability]:
    return [_pack_probability(value) for value in values]


def _pack_probability(value: float | None) -> _Probability:
    """Write a probability that has at most four decimals as an int, which takes half the space."""
    if value is None or not 0.0 <= value <= 1.0:
        return value
    units = round(value * 10_000)
    return units if units / 10_000 == value else value


def _unpack_probability(value: _Probability) -> float | None:
    return value / 10_000 if isinstance(value, int) else value


def _pack_branches(branches: tuple[Branch, ...], t0: int) -> BranchColumns | None:
    if not branches:
        return None
    ready = [None if b.ready_at is None else b.ready_at - t0 for b in branches]
    tokens = tuple([b.tokens for b in branches])
    return BranchColumns(
        [b.accepted_len for b in branches],
        [b.rank for b in branches],
        tokens if any(tokens) else (),
        ready[0] if ready.count(ready[0]) == len(ready) else ready,
        [b.bonus for b in branches],
        _pack_probabilities([b.probability for b in branches]),
    )


def _unpack_branches(columns: BranchColumns | None, t0: int) -> tuple[Branch, ...]:
    if columns is None:
        return ()
    n = len(columns.accepted_len)
    ready = columns.ready_at if isinstance(columns.ready_at, list) else [columns.ready_at] * n
    rows = zip(
        columns.accepted_len,
        columns.bonus,
        columns.rank,
        map(_unpack_probability, columns.probability),
        columns.tokens or ((),) * n,
        [None if r is None else t0 + r for r in ready],
        strict=True,
    )
    return tuple([Branch(*row) for row in rows])
