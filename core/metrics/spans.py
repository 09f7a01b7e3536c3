"""Interval arithmetic on the spans of rounds: who was busy when, and where the time of a round went.

Intervals are (start, end) in ns, `start` included; a list of them is sorted and disjoint once `merge`d. All
results are integers, so shares add up to the round time exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specmon.core.events import BUSY_KINDS, Round, Span

Interval = tuple[int, int]

_DRAFT_KINDS = frozenset({"draft", "branch_draft", "prefill"})
_ACCEPT_KINDS = frozenset({"accept", "handoff", "collective"})


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Time (ns) in which the target's and another device were both busy, and whether that work was of use.

    Used: anything but a branch draft, or a branch draft of a round that hit. `used_ns` + `wasted_ns` =
    `total_ns`.
    """

    total_ns: int
    used_ns: int
    wasted_ns: int


@dataclass(frozen=True)
class Shares:
    """Where the time of rounds went (ns). Each instant counts once, for the first part that holds."""

    verify_ns: int = 0
    accept_ns: int = 0  # accept, handoff and collectives outside verification
    draft_ns: int = 0  # drafting that nothing of the target's hides
    wait_ns: int = 0  # a device waited and none was busy
    other_ns: int = 0  # no span at all: the host, or gaps between launches
    total_ns: int = 0


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Union of intervals, as sorted, disjoint ones; empty and reversed intervals hold nothing."""
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def intersect(a: Sequence[Interval], b: Sequence[Interval]) -> list[Interval]:
    """Intersection of two merged lists."""
    common: list[Interval] = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            common.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return common


def measure(merged: Sequence[Interval]) -> int:
    """Total length (ns) of a merged list."""
    return sum(end - start for start, end in merged)


def round_windows(rounds: Iterable[Round]) -> list[Interval]:
    """The rounds' own times, merged; gaps between lanes' turns stay out."""
    return merge((r.t0, r.t1) for r in rounds)


def spans_of(rounds: Iterable[Round], kinds: frozenset[str], device: int | None = None) -> list[Interval]:
    """Merged spans of these kinds, of one device or of all."""
    return merge(
        (span.start, span.end)
        for r in rounds
        for span in r.spans
        if span.kind in kinds and (device is None or span.device == device)
    )


def busy_ns(rounds: Sequence[Round], device: int, recorded_in: Sequence[Round] = ()) -> int:
    """Time (ns) inside these rounds in which the device did work: waiting and handoff are none.

    The spans are those of `recorded_in`, or of the rounds themselves.
    """
    return measure(intersect(spans_of(recorded_in or rounds, BUSY_KINDS, device), round_windows(rounds)))


def verify_ns(round_: Round) -> int:
    """Time (ns) of the round's verification pass."""
    return measure(spans_of((round_,), frozenset({"verify"})))


def overlap(rounds: Sequence[Round], n_devices: int) -> Overlap | None:
    """Time in which the target's device (0) and another were both busy with these rounds' work.

    Returns: None with one device, where overlap does not apply.
    """
    if n_devices < 2:
        return None
    used, both = overlap_intervals(rounds)
    total_ns, used_ns = measure(both), measure(used)
    return Overlap(total_ns=total_ns, used_ns=used_ns, wasted_ns=total_ns - used_ns)


def overlap_intervals(rounds: Sequence[Round]) -> tuple[list[Interval], list[Interval]]:
    """When the target's device (0) and another were both busy: (used, all), as `Overlap` counts them.

    Devices that share a verification pass do not overlap with each other.
    """
    hits = {r.index for r in rounds if r.hit is not None}
    busy = [span for r in rounds for span in r.spans if span.kind in BUSY_KINDS]
    used = [span for span in busy if span.kind != "branch_draft" or span.for_round - 1 in hits]
    return _both_busy(used), _both_busy(busy)


def _both_busy(spans: Sequence[Span]) -> list[Interval]:
    target = merge((s.start, s.end) for s in spans if s.device == 0)
    others = merge((s.start, s.end) for s in spans if s.device != 0 and s.kind != "verify")
    return intersect(target, others)


def shares(rounds: Sequence[Round], recorded_in: Sequence[Round] = ()) -> Shares:
    """Tile the time of these rounds by what the devices did, verification first (see `Shares`).

    The spans are those of `recorded_in`, or of the rounds themselves.
    """
    windows = round_windows(rounds)
    total = measure(windows)
    parts: list[int] = []
    covered: list[Interval] = []
    for kinds in (frozenset({"verify"}), _ACCEPT_KINDS, _DRAFT_KINDS, frozenset({"wait"})):
        wider = merge([*covered, *intersect(spans_of(recorded_in or rounds, kinds), windows)])
        parts.append(measure(wider) - measure(covered))
        covered = wider
    return Shares(
        verify_ns=parts[0],
        accept_ns=parts[1],
        draft_ns=parts[2],
        wait_ns=parts[3],
        other_ns=total - measure(covered),
        total_ns=total,
    )
