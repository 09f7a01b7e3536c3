"""Passes under torch's profiler: what ran in each, by group."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from specmon.core.bench.kernel_groups import PassTime, Stretch, group_of, grouped, outermost, pass_time
from specmon.core.bench.ranges import PREFIX

PASS = PREFIX + "pass"

#: A pass as its groups, and its kernels with theirs.
SeenPass = tuple[PassTime, list[tuple[str, Stretch]]]


def times_ns(work: Callable[[], None], passes: int) -> list[int]:
    """ns of each pass; a pass ends when its tokens are on the host."""
    times = []
    for _ in range(passes):
        t0 = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - t0)
    return times


def record(work: Callable[[], None], passes: int, device: torch.device) -> tuple[list[int], list[Any]]:
    """Run `passes` passes under the profiler. Returns: ns of each, and what the profiler saw."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)

    def marked() -> None:
        with torch.profiler.record_function(PASS):
            work()

    with torch.profiler.profile(activities=activities) as profiler:
        times = times_ns(marked, passes)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return times, list(profiler.events() or ())


def _stretch(event: Any) -> Stretch:
    start, end = round(event.time_range.start * 1e3), round(event.time_range.end * 1e3)
    return Stretch(event.name, start, end)


def _within(stretches: Sequence[Stretch], mark: Stretch) -> list[Stretch]:
    return [stretch for stretch in stretches if mark.start <= stretch.start < mark.end]


def _passes(events: Sequence[Any]) -> list[Stretch]:
    """The host's ranges around each pass."""
    marks = [_stretch(e) for e in events if e.name == PASS and _is_on(e, "CPU")]
    return sorted(marks, key=lambda mark: mark.start)


def _is_on(event: Any, device: str) -> bool:
    return bool(event.device_type.name == device)


def _is_work(name: str) -> bool:
    """Whether a device's event is a kernel or a copy, not a range or the wait for one."""
    return not name.startswith(PREFIX) and not name.endswith(" Sync")


def _groups_marked(events: Sequence[Any], device: str) -> list[Stretch]:
    """Ranges that name a group, as they lie on `device`."""
    marks = [_stretch(e) for e in events if _is_on(e, device) and e.name.startswith(PREFIX)]
    return [mark._replace(name=mark.name.removeprefix(PREFIX)) for mark in marks if mark.name != PASS]


def passes_on_cuda(events: Sequence[Any]) -> list[SeenPass]:
    """Kernels by the pass in which they started: a pass ends only when its last kernel has."""
    kernels = [_stretch(e) for e in events if _is_on(e, "CUDA") and _is_work(e.name)]
    ranges = _groups_marked(events, "CUDA")
    found = []
    for mark in _passes(events):
        own = grouped(_within(kernels, mark), _within(ranges, mark))
        if own:
            found.append((pass_time(own), own))
    return found


def passes_on_cpu(events: Sequence[Any]) -> list[SeenPass]:
    """Named ranges, and of the other ops those that name a group; the rest of a pass counts as "other"."""
    marked = _groups_marked(events, "CPU")
    ops = [_stretch(e) for e in events if not e.name.startswith(PREFIX)]
    told = [
        op._replace(name=group) for op in ops if (group := group_of(op.name, "")) in ("norm", "attention")
    ]
    found = []
    for mark in _passes(events):
        own = [(op.name, op) for op in outermost(_within([*marked, *told], mark))]
        time_of = pass_time(own)
        inside = mark.end - mark.start
        groups = {**time_of.groups, "other": inside - sum(time_of.groups.values())}
        found.append((time_of._replace(groups=groups, gaps=0, span=inside), own))
    return found
