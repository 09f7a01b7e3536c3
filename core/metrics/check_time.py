"""Whether rounds and spans follow one another as they must. Problems come as sentences without a place."""

from __future__ import annotations

from bisect import bisect_left

from specmon.core.events import Prefill, Round

SPANS_KEPT = 512  # newest spans of a device stream that another may overlap with


def check_index(before: Round | None, round_: Round) -> list[str]:
    """Rounds are numbered from 0 without a gap, discarded ones included."""
    expected = 0 if before is None else before.index + 1
    return [] if round_.index == expected else [f"comes where round {expected} was due"]


def check_tiling(
    before: Round | None, prefill: Prefill | None, round_: Round, gaps_allowed: bool
) -> list[str]:
    """A round starts where the one before ended; lanes that take turns may leave gaps, never overlap."""
    problems = []
    if round_.t1 < round_.t0:
        problems.append("ends before it starts")
    if before is None:
        if prefill is not None and round_.t0 < prefill.t:
            problems.append("starts before token one was known")
    elif round_.t0 < before.t1:
        problems.append(f"starts {before.t1 - round_.t0} ns before round {before.index} ends")
    elif round_.t0 > before.t1 and not gaps_allowed:
        problems.append(f"leaves {round_.t0 - before.t1} ns after round {before.index}")
    return problems


class StreamSpans:
    """The newest spans of a lane's device streams, each of which does one thing at a time."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], list[tuple[int, int]]] = {}

    def add(self, round_: Round) -> list[str]:
        """Take in a round's spans and report those that overlap others of their stream."""
        return [
            f"its {span.kind} span overlaps another on stream {span.stream} of device {span.device}"
            for span in round_.spans
            if self._overlaps(span.device, span.stream, span.start, span.end)
        ]

    def _overlaps(self, device: int, stream: str, start: int, end: int) -> bool:
        known = self._known.setdefault((device, stream), [])
        at = bisect_left(known, (start, end))
        overlaps_before = at > 0 and known[at - 1][1] > start
        overlaps_after = at < len(known) and known[at][0] < end
        known.insert(at, (start, end))
        del known[:-SPANS_KEPT]
        return start < end and (overlaps_before or overlaps_after)
