"""Events as lines of JSON and back.

A `Round` is one positional array in the order of its fields, its times relative to its own `t0`; every
other event is an object tagged with its type. An `Encoder` also leaves out what the round before it in its
lane already said: `t0` where that is the earlier `t1`, and the draft where that is the branch which hit.
Its lines are therefore read by a `Decoder` from the last `reset` on; `encode` and `decode` are the same
without that memory.
"""

from __future__ import annotations

from typing import Any

import msgspec

from specmon.core.events import SCHEMA, AnyEvent, Event, Header, Round
from specmon.core.session.wire import WIRE_LENGTH, Previous, WireRound, from_wire, to_wire


class Unknown(Event, frozen=True, kw_only=True):
    """A line this version does not know or understand, kept as it came so that rewriting loses nothing."""

    kind: str
    raw: bytes


_ROUND = Round.__name__
_encode_json = msgspec.json.Encoder().encode
_decode_round = msgspec.json.Decoder(WireRound).decode
_decode_object: Any = msgspec.json.Decoder(AnyEvent).decode
_FIELDS_OF = {kind.__name__: {*kind.__struct_encode_fields__, "type"} for kind in AnyEvent.__args__}


class Encoder:
    """Turn events into lines; call `reset` where a reader may start."""

    def __init__(self) -> None:
        self._previous: dict[int, Previous] = {}

    def reset(self) -> None:
        """Forget the rounds so far: the next line of every lane stands on its own."""
        self._previous.clear()

    def encode(self, event: Event) -> bytes:
        """Give `event` as one JSON line, newline excluded. Raises ValueError for text that is not Unicode."""
        if isinstance(event, Unknown):
            if event.kind == _ROUND:
                self.reset()
            return event.raw
        if not isinstance(event, Round):
            return _encode_json(event)
        previous = self._previous.get(event.lane)
        line = _encode_json(to_wire(event, previous))
        self._previous[event.lane] = Previous.of(event)
        return line


class Decoder:
    """Turn an `Encoder`'s lines back into events, counting what a newer version added.

    Args:
        schema: the file's, when reading starts after its `Header`.
    """

    def __init__(self, schema: str = SCHEMA) -> None:
        self._previous: dict[int, Previous] = {}
        self._newer = is_newer_minor(schema)
        self.unknown_fields = 0

    def reset(self) -> None:
        """Start at a line written after `Encoder.reset`."""
        self._previous.clear()

    def decode(self, line: bytes) -> Event:
        """Give the event of one line, or an `Unknown`. Raises ValueError for what no `Encoder` writes."""
        event = self._decode(line)
        if isinstance(event, Round):
            self._previous[event.lane] = Previous.of(event)
        elif isinstance(event, Unknown) and event.kind == _ROUND:
            self.reset()
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
        return from_wire(wire, self._previous.get(wire.lane))


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
        return max(0, len(value) - WIRE_LENGTH)
    return len(value.keys() - _FIELDS_OF[type(event).__name__])
