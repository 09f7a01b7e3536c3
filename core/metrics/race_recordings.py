"""Recordings made apart, put side by side as lanes of one race that starts where each began to decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge

from msgspec.structs import replace

from specmon.core.errors import UsageError
from specmon.core.events import (
    AnyEvent,
    DeviceInfo,
    Event,
    Header,
    Lane,
    Prefill,
    Round,
    Turn,
    TurnEnd,
    Vocabulary,
)

MAX_LANES = 4
START_NS = 1_000_000_000  # where the decoding of every lane starts, on the race's clock


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One stream of all lanes, and what forbids to compare them."""

    events: list[Event]
    unlike: tuple[str, ...]


@dataclass
class _Lane:
    """One lane of one recording: its events by their own names."""

    header: Header
    lane: Lane
    turn: Turn
    prefill: Prefill | None
    rounds: list[Round]
    end: TurnEnd | None


def side_by_side(recordings: Sequence[Sequence[Event]]) -> SideBySide:
    """Put the first turn of each recording beside those of the others.

    Every lane runs on its own clock: a round starts where the one before it ended.

    Raises: UsageError where there are not two to four lanes in all.
    """
    lanes = [lane for events in recordings for lane in _lanes_of(events)]
    if not 2 <= len(lanes) <= MAX_LANES:
        raise UsageError(
            f"These recordings have {len(lanes)} lanes with a turn, but a race has two to {MAX_LANES}."
        )
    device_names = _device_names(lanes)
    start: list[Event] = [_header(lanes, device_names)]
    start += [_renamed(lane, number, device_names[number]) for number, lane in enumerate(lanes)]
    start += _vocabularies(recordings, lanes)
    bodies = [_retimed(lane, number) for number, lane in enumerate(lanes)]
    body = merge(*bodies, key=lambda event: event.t)
    return SideBySide(events=[*start, *body], unlike=_unlike(lanes))


def _lanes_of(events: Sequence[Event]) -> list[_Lane]:
    """The lanes of a recording's first turn that began to decode."""
    header = next((event for event in events if isinstance(event, Header)), Header(t=0))
    configured: dict[int, Lane] = {}
    found: dict[int, _Lane] = {}
    number: int | None = None
    for event in events:
        if isinstance(event, Lane):
            configured[event.lane] = event
        elif isinstance(event, Turn) and event.lane in configured and number in (None, event.turn):
            number = event.turn
            found[event.lane] = _Lane(header, configured[event.lane], event, None, [], None)
        elif isinstance(event, Prefill | Round | TurnEnd) and event.turn == number and event.lane in found:
            _take(found[event.lane], event)
    return [found[lane] for lane in sorted(found)]


def _take(lane: _Lane, event: Prefill | Round | TurnEnd) -> None:
    if isinstance(event, Prefill):
        lane.prefill = event
    elif isinstance(event, TurnEnd):
        lane.end = event
    elif not event.discarded:
        lane.rounds.append(event)


def _retimed(lane: _Lane, number: int) -> list[AnyEvent]:
    prefill = lane.prefill
    before = START_NS - (prefill.t if prefill else lane.turn.t)
    here = {"lane": number, "turn": 0}
    events: list[AnyEvent] = [replace(lane.turn, t=lane.turn.t + before, **here)]
    if prefill is not None:
        chunks = tuple(replace(c, t0=c.t0 + before, t1=c.t1 + before) for c in prefill.chunks)
        spans = tuple(replace(s, start=s.start + before, end=s.end + before) for s in prefill.spans)
        events.append(
            replace(prefill, t=START_NS, t0=prefill.t0 + before, chunks=chunks, spans=spans, **here)
        )
    clock = START_NS
    for round_ in lane.rounds:
        events.append(replace(_shifted(round_, clock - round_.t0), **here))
        clock += round_.t1 - round_.t0
    if lane.end is not None:
        events.append(replace(lane.end, t=clock, **here))
    return events


def _shifted(round_: Round, by: int) -> Round:
    return replace(
        round_,
        t=round_.t1 + by,
        t0=round_.t0 + by,
        t1=round_.t1 + by,
        spans=tuple(replace(s, start=s.start + by, end=s.end + by) for s in round_.spans),
        branches=tuple(
            b if b.ready_at is None else replace(b, ready_at=b.ready_at + by) for b in round_.branches
        ),
    )


def _device_names(lanes: Sequence[_Lane]) -> list[dict[str, str]]:
    """What each lane's devices are called here: another name where another machine has one of that name."""
    known: dict[str, DeviceInfo | None] = {}
    names = []
    for number, lane in enumerate(lanes):
        own: dict[str, str] = {}
        for name in lane.lane.devices:
            info = _device(lane.header, name)
            is_other = name in known and known[name] != info
            own[name] = f"{name} of {'ABCD'[number]}" if is_other else name
            known.setdefault(own[name], info)
        names.append(own)
    return names


def _device(header: Header, name: str) -> DeviceInfo | None:
    return next((device for device in header.devices if device.name == name), None)


def _header(lanes: Sequence[_Lane], device_names: Sequence[dict[str, str]]) -> Header:
    devices = {
        shown: replace(info, name=shown)
        for lane, names in zip(lanes, device_names, strict=True)
        for name, shown in names.items()
        if (info := _device(lane.header, name)) is not None
    }
    return replace(
        lanes[0].header,
        t=0,
        devices=tuple(devices.values()),
        redacted=any(lane.header.redacted for lane in lanes),
    )


def _renamed(lane: _Lane, number: int, names: dict[str, str]) -> Lane:
    devices = tuple(names[name] for name in lane.lane.devices)
    return replace(lane.lane, t=0, lane=number, devices=devices)


def _vocabularies(recordings: Sequence[Sequence[Event]], lanes: Sequence[_Lane]) -> list[Event]:
    """The vocabularies, but not those of another tokenizer than the first recording's."""
    pieces: dict[int, str] = {}
    first = lanes[0]
    for events in recordings:
        header = next((event for event in events if isinstance(event, Header)), first.header)
        if _tokenizer(header) == _tokenizer(first.header):
            for event in events:
                if isinstance(event, Vocabulary):
                    pieces |= event.pieces
    return [Vocabulary(t=0, pieces=pieces)] if pieces else []


def _tokenizer(header: Header) -> str | None:
    return header.hashes.get("tokenizer")


def _unlike(lanes: Sequence[_Lane]) -> tuple[str, ...]:
    """In what the lanes differ, in words; what no recording tells differs from nothing."""
    facts: dict[str, list[object]] = {
        "different prompt": [(lane.turn.prompt, lane.turn.prompt_tokens) for lane in lanes],
        "different target": [(lane.lane.target, lane.header.hashes.get("target")) for lane in lanes],
        "different recipe": [(lane.lane.recipe, lane.lane.backend) for lane in lanes],
        "different sampling": [(lane.turn.sampling, lane.turn.stop_strings) for lane in lanes],
        "different hardware": [_hardware(lane) for lane in lanes],
    }
    return tuple(what for what, values in facts.items() if any(v != values[0] for v in values))


def _hardware(lane: _Lane) -> set[str]:
    """The models of the devices the lane ran on."""
    devices = (_device(lane.header, name) for name in lane.lane.devices)
    return {device.model for device in devices if device is not None}
