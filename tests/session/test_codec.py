"""Events survive a line exactly, also those of a newer version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmon.core.events import (
    AnyEvent,
    Branch,
    DeviceBytes,
    Event,
    Header,
    Log,
    Marker,
    Prefill,
    Round,
    Sample,
    Span,
    Turn,
    Vocabulary,
)
from specmon.core.session.codec import Decoder, Encoder, Unknown, decode, encode, is_newer_minor, parse_schema
from specmon.core.session.wire import WireRound

TIMES = st.integers(-(2**60), 2**60)
COUNTS = st.integers(0, 2**40)
TEXT = st.text(max_size=8)
TOKENS = st.one_of(st.none(), st.integers(0, 200_000))
PROBABILITIES = st.one_of(
    st.none(),
    st.floats(0, 1),
    st.integers(0, 10_000).map(lambda n: n / 10_000),
    st.floats(allow_nan=False, allow_infinity=False),
)


def tuples(of: st.SearchStrategy[Any], max_size: int = 4) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=max_size).map(tuple)


SPANS = st.builds(
    Span,
    device=st.integers(0, 3),
    stream=TEXT,
    kind=st.sampled_from(["draft", "verify", "branch_draft", "wait"]),
    start=TIMES,
    end=TIMES,
    for_round=COUNTS,
)
BRANCHES = st.builds(
    Branch,
    accepted_len=st.integers(0, 16),
    bonus=TOKENS,
    rank=st.integers(1, 20),
    probability=PROBABILITIES,
    tokens=tuples(st.integers(0, 9)),
    ready_at=st.one_of(st.none(), TIMES),
)
ROUNDS = st.builds(
    Round,
    t=TIMES,
    lane=st.integers(0, 2),
    turn=COUNTS,
    index=COUNTS,
    t0=st.one_of(st.sampled_from([0, 5]), TIMES),
    t1=st.one_of(st.sampled_from([0, 5]), TIMES),
    requested_k=st.integers(0, 16),
    drafter=st.one_of(st.none(), TEXT),
    draft=tuples(st.one_of(st.none(), st.integers(0, 9))),
    draft_probs=tuples(PROBABILITIES),
    parents=st.one_of(st.none(), tuples(st.integers(-1, 9))),
    accepted_path=st.one_of(st.none(), tuples(st.integers(0, 9))),
    accepted_len=st.integers(0, 5),
    bonus=TOKENS,
    emitted=tuples(TOKENS),
    text=tuples(TEXT),
    margin=st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    kv_len=tuples(COUNTS),
    fan_out=st.one_of(st.none(), tuples(COUNTS)),
    branches=tuples(BRANCHES),
    hit=st.one_of(st.none(), st.integers(-2, 5)),
    miss=st.sampled_from([None, "rank", "late", "none"]),
    fallback=st.one_of(st.none(), TEXT),
    features=st.sampled_from([None, "real", "predicted"]),
    spans=tuples(SPANS),
    bytes=tuples(st.builds(DeviceBytes, device=COUNTS, weights=COUNTS, kv=COUNTS, handoff=COUNTS)),
    host_launches=st.one_of(st.none(), COUNTS),
    discarded=st.booleans(),
)


def line_of(value: object) -> bytes:
    return msgspec.json.encode(value)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROUNDS, max_size=4))
def test_rounds_survive_with_and_without_memory(rounds: list[Round]) -> None:
    encoder, decoder = Encoder(), Decoder()
    assert [decoder.decode(encoder.encode(event)) for event in rounds] == rounds
    assert [decode(encode(event)) for event in rounds] == rounds


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
OTHERS = st.one_of(
    st.builds(
        Header, t=TIMES, versions=st.dictionaries(TEXT, TEXT), hashes=st.dictionaries(TEXT, TEXT), host=TEXT
    ),
    st.builds(Vocabulary, t=TIMES, pieces=st.dictionaries(st.integers(0, 2**31), TEXT)),
    st.builds(
        Turn, t=TIMES, prompt=st.one_of(st.none(), TEXT), prompt_tokens=COUNTS, stop_strings=tuples(TEXT)
    ),
    st.builds(
        Prefill, t=TIMES, t0=TIMES, chunks=st.just(()), token_one=TOKENS, text=TEXT, spans=tuples(SPANS)
    ),
    st.builds(Sample, t=TIMES, values=st.dictionaries(TEXT, FLOATS)),
    st.builds(Log, t=TIMES, level=TEXT, text=TEXT),
)


@settings(max_examples=60, deadline=None)
@given(OTHERS)
def test_other_events_survive(event: Event) -> None:
    line = encode(event)
    assert b"\n" not in line
    assert decode(line) == event


def test_every_kind_survives_equal(events: list[Event]) -> None:
    assert {type(event) for event in events} == set(AnyEvent.__args__)
    assert [decode(encode(event)) for event in events] == events


def test_line_has_every_field_of_a_round_in_its_order() -> None:
    assert WireRound.__struct_fields__ == Round.__struct_fields__


def test_hit_tokens_are_stored_once(stream: Callable[..., Any]) -> None:
    rounds = stream(1, fan_out=2).rounds(40)
    encoder = Encoder()
    lines = [encoder.encode(event) for event in rounds]
    follows_hit = [False, *(event.hit is not None for event in rounds[:-1])]
    drafts = [msgspec.json.decode(line, type=WireRound).draft for line in lines]
    assert any(follows_hit)
    assert [draft is None for draft in drafts] == follows_hit


def test_reset_makes_the_next_round_readable_alone(stream: Callable[..., Any]) -> None:
    encoder = Encoder()
    for event in stream(1, fan_out=2).rounds(5):
        encoder.reset()
        assert decode(encoder.encode(event)) == event


def test_lanes_do_not_share_memory(stream: Callable[..., Any]) -> None:
    first = stream(1, fan_out=2).rounds(10)
    other = [msgspec.structs.replace(event, lane=1) for event in stream(2, fan_out=2).rounds(10)]
    mixed = [event for pair in zip(first, other, strict=True) for event in pair]
    encoder, decoder = Encoder(), Decoder()
    assert [decoder.decode(encoder.encode(event)) for event in mixed] == mixed


def test_decoder_refuses_a_round_whose_predecessor_is_missing(stream: Callable[..., Any]) -> None:
    encoder = Encoder()
    lines = [encoder.encode(event) for event in stream(1, fan_out=1).rounds(3)]
    with pytest.raises(ValueError, match="missing"):
        decode(lines[1])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\x00",
        b"{",
        b"[" * 100_000,
        b"12",
        b"null",
        b"[]",
        b"[3]",
        b"{}",
        b'{"type":7}',
        b'"Round"',
        b"\xff",
    ],
)
def test_decode_refuses_what_is_no_event(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"type":"Aura","t":3,"lane":1,"x":[1]}', "Aura"),
        (b'["Forest",1,2,{"a":null}]', "Forest"),
        (b'{"type":"Marker","t":"soon","label":"x"}', "Marker"),
        (b'["Round",1]', "Round"),
    ],
)
def test_unknown_lines_are_kept_as_they_are(line: bytes, kind: str) -> None:
    event = decode(line)
    assert isinstance(event, Unknown)
    assert event.kind == kind
    assert encode(event) == line


def test_unknown_keeps_its_place_in_the_stream() -> None:
    event = decode(b'{"type":"Aura","t":3,"lane":1,"turn":2}')
    assert (event.t, event.lane, event.turn) == (3, 1, 2)


def test_fields_of_a_newer_minor_are_counted(stream: Callable[..., Any]) -> None:
    event = stream(1).rounds(1)[0]
    longer = line_of([*msgspec.json.decode(encode(event)), "new", 2])
    marker = line_of({"type": "Marker", "t": 1, "label": "x", "colour": "red"})
    decoder = Decoder("1.9")
    assert decoder.decode(longer) == event
    assert decoder.decode(marker) == Marker(t=1, label="x")
    assert decoder.unknown_fields == 3


def test_decoder_learns_the_schema_from_the_header() -> None:
    decoder = Decoder()
    decoder.decode(encode(Header(t=0, schema="1.7")))
    decoder.decode(line_of({"type": "Marker", "t": 1, "label": "x", "colour": "red"}))
    assert decoder.unknown_fields == 1


@pytest.mark.parametrize("schema", ["", "1", "1.x", "-1.0", "1.0.0", "1." + "9" * 40, "१.०"])
def test_schema_version_must_be_two_numbers(schema: str) -> None:
    with pytest.raises(ValueError):
        parse_schema(schema)


def test_newer_minor_is_of_the_same_major() -> None:
    assert is_newer_minor("1.4")
    assert not is_newer_minor("1.3")
    assert not is_newer_minor("2.1")
