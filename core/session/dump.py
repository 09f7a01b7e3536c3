"""Canonical text of a recording: one JSON object a line, fields in one order, names spelled out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from specmon.core.events import ClockSync, Event, Sample, Telemetry
from specmon.core.session.codec import Unknown

_TIMES = ("t", "t0", "t1", "utc_start")
_MEASURED_ONLY = (Telemetry, ClockSync, Sample)
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_encode = msgspec.json.encode


def dump_lines(events: Iterable[Event], *, times: bool = True) -> Iterator[str]:
    """Yield one line an event, newline excluded, safe to print on a terminal.

    `times=False` leaves out every time, and the events that only measure, so that two runs that decided
    alike give the same lines.
    """
    for event in events:
        if isinstance(event, Unknown):
            yield _safe(event.raw)
        elif times:
            yield _safe(_encode(_plain(event)))
        elif not isinstance(event, _MEASURED_ONLY):
            yield _safe(_encode(_without_times(_plain(event))))


def _plain(event: Event) -> dict[str, Any]:
    """The event's fields in their own order, the keys of a mapping in it sorted."""
    plain: dict[str, Any] = msgspec.to_builtins(event, str_keys=True)
    return {name: dict(sorted(v.items())) if isinstance(v, dict) else v for name, v in plain.items()}


def _without_times(event: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in event.items() if name not in _TIMES}
    if "spans" in kept:
        kept["spans"] = sorted([device, stream, kind, of] for device, stream, kind, _, _, of in kept["spans"])
    if "branches" in kept:
        kept["branches"] = [branch[:-1] for branch in kept["branches"]]
    if "chunks" in kept:
        kept["chunks"] = [chunk[:2] for chunk in kept["chunks"]]
    return kept


def _safe(line: bytes) -> str:
    """Escape what a terminal could take for a command and JSON leaves alone."""
    text = line.decode("utf-8", "replace")
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
