"""Events as lines of JSON and back.

A `Round` is one positional array in the order of its fields, its times relative to its own `t0`; every
other event is an object tagged with its type. An `Encoder` also leaves out what the round before it in its
lane already said: `t0` where that is the earlier `t1`, and the draft where that is the branch which hit.
Its lines are therefore read by a `Decoder` from the last `reset` on; `encode` and `decode` are the same
without that memory.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from specmon.core.events import (
    SCHEMA,
    AnyEvent,
    Branch,
    DeviceBytes,
    Event,
    Header,
    MissReason,
    Round,
    Span,
    SpanKind,
)

Ids = tuple[int | None, ...]
_SpanRow = tuple[int, str, SpanKind, int, int, int]


class Unknown(Event, frozen=True, kw_only=True):
    """A line this version does not know or understand, kept as it came so that rewriting loses nothing."""

    kind: str
    raw: bytes


class BranchColumns(msgspec.Struct, array_like=True):
    """All branches of a round, a column a field: equal neighbours pack well. `ready_at` counts from `t0`."""

    accepted_len: list[int]
    bonus: list[int | None]
    rank: list[int]
    probability: list[float | None]
    tokens: list[tuple[int, ...]]
    ready_at: list[int | None]


class WireRound(msgspec.Struct, array_like=True, tag="Round"):
    """A `Round` as it is written, field for field in the same order; new fields go to the end with a default.

    `t`, `t1`, span starts and `ready_at` count from `t0`, a span's end from its start, its round from
    `index`. None means: for `t0` the lane's previous `t1`, for `draft` the branch that hit, for `emitted`
    the accepted chain and the bonus, for `branches` none.
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
    draft_probs: tuple[float | None, ...]
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


_WIRE_LENGTH = len(WireRound.__struct_fields__) + 1
_encode_json = msgspec.json.Encoder().encode
_decode_round = msgspec.json.Decoder(WireRound).decode
_decode_object: Any = msgspec.json.Decoder(AnyEvent).decode
_FIELDS_OF = {kind.__name__: {*kind.__struct_encode_fields__, "type"} for kind in AnyEvent.__args__}


class _Previous(msgspec.Struct, frozen=True):
    """What the next round of a lane may refer to: where the last one ended, and its hit's tokens."""

    t1: int
    hit_tokens: Ids | None


class Encoder:
    """Turn events into lines; call `reset` where a reader may start."""

    def __init__(self) -> None:
        self._previous: dict[int, _Previous] = {}

    def reset(self) -> None:
        """Forget the rounds so far: the next line of every lane stands on its own."""
        self._previous.clear()

    def encode(self, event: Event) -> bytes:
        """Give `event` as one JSON line, newline excluded. Raises ValueError for text that is not Unicode."""
        if isinstance(event, Unknown):
            self._previous.clear()
            return event.raw
        if not isinstance(event, Round):
            return _encode_json(event)
        previous = self._previous.get(event.lane)
        line = _encode_json(_to_wire(event, previous))
        self._previous[event.lane] = _remember(event)
        return line


class Decoder:
    """Turn an `Encoder`'s lines back into events, counting what a newer version added.

    Args:
        schema: the file's, when reading starts after its `Header`.
    """

    def __init__(self, schema: str = SCHEMA) -> None:
        self._previous: dict[int, _Previous] = {}
        self._newer = is_newer_minor(schema)
        self.unknown_fields = 0

    def reset(self) -> None:
        """Start at a line written after `Encoder.reset`."""
        self._previous.clear()

    def decode(self, line: bytes) -> Event:
        """Give the event of one line, or an `Unknown`. Raises ValueError for what no `Encoder` writes."""
        event = self._decode(line)
        if isinstance(event, Round):
            self._previous[event.lane] = _remember(event)
        elif isinstance(event, Unknown):
            self._previous.clear()
        elif isinstance(event, Header):
            self._newer = is_newer_minor(event.schema)
        if self._newer:
            self.unknown_fields += _count_unknown_fields(line, event)
        return event

    def _decode(self, line: bytes) -> Event:
        try:
            if line[:1] != b"[":
                event: Event = _decode_object(line)
                return event
            wire = _decode_round(line)
        except msgspec.ValidationError:
            return _unknown(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ValueError(f"not a line of JSON: {error}") from None
        return _from_wire(wire, self._previous.get(wire.lane))


def encode(event: Event) -> bytes:
    """Give `event` as one self-contained JSON line, newline excluded."""
    return Encoder().encode(event)


def decode(line: bytes) -> Event:
    """Give the event of one self-contained line; an `Unknown` where this version does not know it."""
    return Decoder().decode(line)


def is_newer_minor(schema: str) -> bool:
    """Say whether `schema` ("major.minor") is of this version's major and a later minor."""
    major, minor = parse_schema(schema)
    ours_major, ours_minor = parse_schema(SCHEMA)
    return major == ours_major and minor > ours_minor


def parse_schema(schema: str) -> tuple[int, int]:
    """Split "major.minor". Raises ValueError where that is not two numbers."""
    major, _, minor = schema.partition(".")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit() and len(schema) < 20):
        raise ValueError(f"not a schema version: {schema[:20]!r}")
    return int(major), int(minor)


def _remember(event: Round) -> _Previous:
    hit = event.hit
    hit_tokens = event.branches[hit].tokens if hit is not None and 0 <= hit < len(event.branches) else None
    return _Previous(event.t1, hit_tokens)


def _chain_emitted(draft: Ids, accepted_len: int, bonus: int | None) -> Ids:
    accepted = draft[: max(accepted_len, 0)]
    return accepted if bonus is None else (*accepted, bonus)


def _to_wire(event: Round, previous: _Previous | None) -> WireRound:
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
        event.draft_probs,
        event.parents,
        event.accepted_path,
        event.accepted_len,
        event.bonus,
        None if plain else event.emitted,
        event.text,
        event.margin,
        event.kv_len,
        event.fan_out,
        _to_columns(event.branches, t0),
        event.hit,
        event.miss,
        event.fallback,
        event.features,
        [
            (s.device, s.stream, s.kind, s.start - t0, s.end - s.start, s.for_round - index)
            for s in event.spans
        ],
        event.bytes,
        event.host_launches,
        event.discarded,
    )


def _to_columns(branches: tuple[Branch, ...], t0: int) -> BranchColumns | None:
    if not branches:
        return None
    return BranchColumns(
        [b.accepted_len for b in branches],
        [b.bonus for b in branches],
        [b.rank for b in branches],
        [b.probability for b in branches],
        [b.tokens for b in branches],
        [None if b.ready_at is None else b.ready_at - t0 for b in branches],
    )


def _from_wire(wire: WireRound, previous: _Previous | None) -> Round:
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
        draft_probs=wire.draft_probs,
        parents=wire.parents,
        accepted_path=wire.accepted_path,
        accepted_len=wire.accepted_len,
        bonus=wire.bonus,
        emitted=emitted,
        text=wire.text,
        margin=wire.margin,
        kv_len=wire.kv_len,
        fan_out=wire.fan_out,
        branches=_from_columns(wire.branches, t0),
        hit=wire.hit,
        miss=wire.miss,
        fallback=wire.fallback,
        features=wire.features,
        spans=tuple(
            [
                Span(d, s, k, t0 + start, t0 + start + ns, index + ahead)
                for d, s, k, start, ns, ahead in wire.spans
            ]
        ),
        bytes=wire.bytes,
        host_launches=wire.host_launches,
        discarded=wire.discarded,
    )


def _from_columns(columns: BranchColumns | None, t0: int) -> tuple[Branch, ...]:
    if columns is None:
        return ()
    ready = [None if r is None else t0 + r for r in columns.ready_at]
    rows = zip(
        columns.accepted_len,
        columns.bonus,
        columns.rank,
        columns.probability,
        columns.tokens,
        ready,
        strict=True,
    )
    return tuple([Branch(*row) for row in rows])


def _unknown(line: bytes) -> Unknown:
    """Keep a line that is JSON but no event known here. Raises ValueError where it has no kind."""
    value = msgspec.json.decode(line)
    kind: Any = None
    if isinstance(value, dict):
        kind = value.get("type")
    elif isinstance(value, list) and value:
        kind = value[0]
    if not isinstance(kind, str):
        raise ValueError("not an event: it has no kind")
    place = value if isinstance(value, dict) else {}
    t, lane, turn = (v if isinstance(v := place.get(name), int) else 0 for name in ("t", "lane", "turn"))
    return Unknown(t=t, lane=lane, turn=turn, kind=kind, raw=line)


def _count_unknown_fields(line: bytes, event: Event) -> int:
    if isinstance(event, Unknown):
        return 0
    value = msgspec.json.decode(line)
    if isinstance(value, list):
        return max(0, len(value) - _WIRE_LENGTH)
    return len(value.keys() - _FIELDS_OF[type(event).__name__])
