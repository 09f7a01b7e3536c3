"""Canonical lines: the same decisions give the same text, and no text commands a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from specmon.core.events import Event, Log, Round, Telemetry, Vocabulary
from specmon.core.session.codec import Unknown
from specmon.core.session.dump import dump_lines


def shifted(event: Round, by: int) -> Round:
    spans = tuple(msgspec.structs.replace(s, start=s.start + by, end=s.end + 2 * by) for s in event.spans)
    branches = tuple(msgspec.structs.replace(b, ready_at=by) for b in event.branches)
    return msgspec.structs.replace(
        event, t=event.t + by, t0=event.t0 + by, t1=event.t1 + by, spans=spans, branches=branches
    )


def test_dump_is_one_json_object_a_line_in_field_order(events: list[Event]) -> None:
    lines = list(dump_lines(events))
    assert len(lines) == len(events)
    for line, event in zip(lines, events, strict=True):
        assert list(json.loads(line)) == ["type", *event.__struct_fields__]


def test_dump_without_times_is_equal_for_equal_decisions(stream: Callable[..., Any]) -> None:
    rounds = stream(1, fan_out=2).rounds(10)
    late = [shifted(event, 1_000) for event in rounds]
    assert list(dump_lines(rounds)) != list(dump_lines(late))
    assert list(dump_lines(rounds, times=False)) == list(dump_lines(late, times=False))


def test_dump_without_times_still_shows_decisions(stream: Callable[..., Any]) -> None:
    event = stream(1, fan_out=2).rounds(1)[0]
    other = msgspec.structs.replace(event, bonus=(event.bonus or 0) + 1)
    assert list(dump_lines([event], times=False)) != list(dump_lines([other], times=False))


def test_dump_without_times_leaves_out_measurements() -> None:
    assert list(dump_lines([Telemetry(t=1, device="cuda:0")], times=False)) == []


def test_dump_sorts_mappings() -> None:
    one, other = Vocabulary(t=1, pieces={2: "b", 1: "a"}), Vocabulary(t=1, pieces={1: "a", 2: "b"})
    assert list(dump_lines([one])) == list(dump_lines([other]))


def test_dump_never_holds_control_characters() -> None:
    hostile = "\x1b[31m\x07\x9b2J\x7f\u202e\u2028\r\n"
    lines = list(
        dump_lines(
            [Log(t=1, level="INFO", text=hostile), Unknown(t=0, kind="x", raw=b'{"type":"x\xc2\x9b2J\xff"}')]
        )
    )
    assert all(line.isprintable() for line in lines)
    assert json.loads(lines[0])["text"] == hostile


def test_dump_keeps_unknown_lines() -> None:
    raw = b'{"type":"Aura","glow":1}'
    assert list(dump_lines([Unknown(t=0, kind="Aura", raw=raw)])) == [raw.decode()]
