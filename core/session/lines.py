"""From a frame's lines to events, with a count of what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from specmon.core.events import Event, Gap
from specmon.core.session.codec import Decoder, Unknown


class FrameReport(msgspec.Struct):
    """What reading one frame found besides events."""

    damaged: bool = False
    bad_lines: int = 0
    unknown_fields: int = 0
    unknown_kinds: Counter[str] = msgspec.field(default_factory=Counter)


def read_lines(lines: Iterable[bytes], schema: str, report: FrameReport) -> Iterator[Event]:
    """Yield the events of one frame of a file of `schema`, counting into `report` what is not understood."""
    decoder = Decoder(schema)
    for line in lines:
        try:
            event = decoder.decode(line)
        except ValueError:
            report.bad_lines += 1
            continue
        if isinstance(event, Unknown):
            report.unknown_kinds[event.kind] += 1
        report.unknown_fields = decoder.unknown_fields
        yield event


def damage_gap(t: int, count: int) -> Gap:
    """Stand in for `count` events, the first known at about `t`, that a file holds no longer."""
    return Gap(t=t, count=count, reason="damaged in the file")
