"""Skimming finds what reading finds; ranges give any stretch of what reading gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from specmon.core.events import Event, Header, Log, Marker, Round
from specmon.core.session.codec import Encoder
from specmon.core.session.ranges import EventRanges
from specmon.core.session.reader import SessionReader
from specmon.core.session.skim import skim

TRAP = 'null,"rank",\\"late\\",true]\n["Round",'


def raw(events: list[Event]) -> bytes:
    encoder = Encoder()
    return b"".join(encoder.encode(event) + b"\n" for event in events)


def test_skim_agrees_with_the_rounds_it_skims(stream: Callable[..., Any]) -> None:
    rounds = [
        replace(r, discarded=i % 7 == 3, text=(TRAP, *r.text[1:]))
        for i, r in enumerate(stream(3, fan_out=1).rounds(60))
    ]
    events: list[Event] = [Header(t=0), *rounds[:20], Log(t=5, level="INFO", text=TRAP), *rounds[20:]]
    events.append(Marker(t=9, label=TRAP))
    skimmed = skim(raw(events))
    assert skimmed.n_lines == len(events)
    assert [events[line] for line in skimmed.lines] == rounds
    assert skimmed.t1 == [r.t1 for r in rounds]
    assert skimmed.ns == [r.t1 - r.t0 for r in rounds]
    assert (skimmed.lanes, skimmed.turns) == ([r.lane for r in rounds], [r.turn for r in rounds])
    assert skimmed.missed == [i for i, r in enumerate(rounds) if r.miss is not None]
    assert skimmed.discarded == [i for i, r in enumerate(rounds) if r.discarded]
    assert skimmed.missed
    assert [(line, type(event)) for line, event in skimmed.others] == [(0, Header), (len(events) - 1, Marker)]


def test_lines_that_are_none_cost_only_themselves(stream: Callable[..., Any]) -> None:
    good = raw(list(stream(1).rounds(3)))
    skimmed = skim(b'["Round",1\n["Round",1,0,0,0,0,5],["Round"]\n[]\n{"type":\n' + good)
    assert list(skimmed.lines) == [4, 5, 6]
    assert skimmed.bad_lines == 1


@pytest.mark.parametrize("frame_events", [1, 3, 1000])
def test_ranges_give_any_stretch(write: Callable[..., Path], events: list[Event], frame_events: int) -> None:
    with SessionReader.open(write(events, frame_events=frame_events, closed=False)) as reader:
        ranges = EventRanges(reader)
        whole = list(reader.events())
        assert reader.n_events == len(whole)
        for first in range(0, len(whole), 3):
            assert list(ranges.events(first, first + 4)) == whole[first : first + 4]


def test_ranges_hold_few_frames(
    write: Callable[..., Path], events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmon.core.session.ranges.KEPT_EVENTS", 4)
    with SessionReader.open(write(events, frame_events=2, closed=False)) as reader:
        ranges = EventRanges(reader)
        assert list(ranges.events(0, len(events))) == list(reader.events())
        assert len(ranges._kept) == 2


def test_damaged_frame_is_a_gap_in_its_place(write: Callable[..., Path], events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    with SessionReader.open(path) as reader:
        hurt = reader.frames[1]
    data = bytearray(path.read_bytes())
    data[hurt.data_offset + 20] ^= 255
    path.write_bytes(data)
    with SessionReader.open(path) as reader:
        skimmed = reader.skim(1)
        assert (skimmed.n_lines, list(skimmed.lines)) == (4, [])
        assert "damaged" in reader.warnings[-1]
        ranges = EventRanges(reader)
        assert [getattr(event, "count", None) for event in ranges.events(4, 8)] == [4]
        assert list(ranges.events(8, 10)) == events[8:10]


def test_lost_mark_is_a_gap_between_its_neighbours(write: Callable[..., Path], events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    with SessionReader.open(path) as reader:
        hurt = reader.frames[1]
    data = bytearray(path.read_bytes())
    data[hurt.offset + 14] ^= 255
    path.write_bytes(data)
    with SessionReader.open(path) as reader:
        ranges, whole = EventRanges(reader), list(reader.events())
        pieces = [list(ranges.events(i, i + 1)) for i in range(reader.n_events)]
        assert [event for piece in pieces for event in piece] == whole
        assert sum(isinstance(event, Round) for event in whole) < len(events)
