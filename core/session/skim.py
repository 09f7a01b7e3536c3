"""A frame skimmed: where its rounds are and when they ended, enough to move about in a file by.

A round is not decoded whole: its place and times lead its line, and whether it missed or was discarded shows
in the text of the line. What is not a round is decoded, but for what comes often and no one navigates by.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from specmon.core.events import Event, Lane
from specmon.core.session.codec import decode

#: Kinds that are many and mark no place.
_PASSED_OVER = tuple(f'{{"type":"{kind}",'.encode() for kind in ("Telemetry", "Sample", "Log", "Snapshot"))
#: Why a round missed, in its line: `hit` is null before it. In a string the quotes would be escaped.
_REASONS = (b'"rank"', b'"late"', b'"none"')
_BEFORE_REASON = b"null,"
#: `discarded` is a round's last field, and the only one that ends like this.
_DISCARDED = b",true]"


class _Lead(msgspec.Struct, array_like=True, tag="Round", gc=False):
    """The fields that lead a `WireRound`; the others are passed over."""

    t: int
    lane: int
    turn: int
    index: int
    t0: int | None
    t1: int


_decode_leads = msgspec.json.Decoder(list[_Lead]).decode
_decode_lead = msgspec.json.Decoder(_Lead).decode


class Skim(msgspec.Struct, frozen=True, kw_only=True):
    """A frame's rounds in columns, and its other events.

    `lines`: each round's line in the frame; `t1` and `ns`: its end and its length; `missed` and `discarded`:
    places in these columns. `others`: line and event. `n_lines` counts all, `bad_lines` what nobody can read.
    """

    n_lines: int = 0
    lines: Sequence[int] = ()
    lanes: Sequence[int] = ()
    turns: Sequence[int] = ()
    t1: Sequence[int] = ()
    ns: Sequence[int] = ()
    missed: list[int] = []
    discarded: list[int] = []
    others: list[tuple[int, Event]] = []
    bad_lines: int = 0


def skim(raw: bytes, *, misses: bool = True) -> Skim:
    """Skim a frame's lines, each ended by a newline.

    Looking for misses takes a third of the time: `misses` says whether a lane known before this frame is SSD.
    """
    lines = raw.split(b"\n")[:-1]
    numbers, leads = _leads(lines)
    others, bad_lines = _others(lines)
    misses |= any(isinstance(event, Lane) and event.decoder == "ssd" for _, event in others)
    return Skim(
        n_lines=len(lines),
        lines=numbers,
        lanes=[lead.lane for lead in leads],
        turns=[lead.turn for lead in leads],
        t1=_ends(leads),
        ns=[lead.t1 for lead in leads],
        missed=_missed(raw, lines, numbers) if misses else [],
        discarded=[place for place, n in enumerate(numbers) if lines[n].endswith(_DISCARDED)],
        others=others,
        bad_lines=bad_lines,
    )


def is_passed_over(line: bytes) -> bool:
    """Whether a line is of a kind that no one navigates by."""
    return line.startswith(_PASSED_OVER)


def _leads(lines: list[bytes]) -> tuple[Sequence[int], list[_Lead]]:
    numbers = [number for number, line in enumerate(lines) if line[:1] == b"["]
    try:
        leads = _decode_leads(b"[%b]" % b",".join([lines[number] for number in numbers]))
        if len(leads) == len(numbers):
            return numbers, leads
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    readable = [(number, lead) for number in numbers if (lead := _lead(lines[number])) is not None]
    return [number for number, _ in readable], [lead for _, lead in readable]


def _lead(line: bytes) -> _Lead | None:
    try:
        return _decode_lead(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _others(lines: list[bytes]) -> tuple[list[tuple[int, Event]], int]:
    others: list[tuple[int, Event]] = []
    bad_lines = 0
    for number in [number for number, line in enumerate(lines) if line[:1] != b"["]:
        if not is_passed_over(lines[number]):
            try:
                others.append((number, decode(lines[number])))
            except ValueError:
                bad_lines += 1
    return others, bad_lines


def _ends(leads: list[_Lead]) -> list[int]:
    """When each round ended; one without `t0` starts where its lane's last one ended."""
    ends = []
    last: dict[int, int] = {}
    for lead in leads:
        t0 = lead.t0
        end = (last.get(lead.lane, 0) if t0 is None else t0) + lead.t1
        last[lead.lane] = end
        ends.append(end)
    return ends


def _missed(raw: bytes, lines: list[bytes], numbers: Sequence[int]) -> list[int]:
    """Places of the rounds that name a reason why they missed."""
    found = [at for reason in _REASONS for at in _find(raw, reason)]
    if not found:
        return []
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    place_of = {number: place for place, number in enumerate(numbers)}
    hits = {bisect_right(starts, at) - 1 for at in found}
    return sorted(place_of[number] for number in hits if number in place_of)


def _find(raw: bytes, reason: bytes) -> Iterator[int]:
    at = raw.find(reason)
    while at >= 0:
        if raw.endswith(_BEFORE_REASON, 0, at):
            yield at
        at = raw.find(reason, at + len(reason))
