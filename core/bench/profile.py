"""Where a decode pass spends its time, kernel by kernel.

Passes are timed without the profiler, then with it, then without again. The first say how long a pass takes, the second how
that divides; by how much the profiler stretches a pass is part of the result. On CUDA kernels and their times come from
CUPTI through torch's profiler, kernels inside a CUDA graph included; on a CPU the ops of the reference backend are timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec
import torch

from specmon.core.bench.kernel_groups import GROUPS, LINEARS, PassTime
from specmon.core.bench.profiler import SeenPass, passes_on_cpu, passes_on_cuda, record, times_ns
from specmon.core.bench.ranges import Switch, named
from specmon.core.decoders.choose import Chooser
from specmon.core.decoders.target import Target
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.pool import LoadedModel

_TOKEN = 11


class GroupTime(msgspec.Struct, frozen=True, kw_only=True):
    """One group's part of a mean pass under the profiler. `n_bytes`: weights or KV it must read, None for none."""

    group: str
    us: float
    share: float
    kernels: float
    n_bytes: int | None
    ceiling_fraction: float | None


class PassProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A pass of `rows` rows at `kv_len` cached positions.

    `unprofiled_ms` and `profiled_ms` are medians a pass, on the host's clock, result on the host; `distortion` is the
    second ÷ the first. `device_ms` (first kernel's start to last kernel's end) = all groups + `gaps_us`, and
    `host_us` is the rest of a profiled pass: all three are means. On a CPU there are no gaps (None): what belongs to no
    group, the host's own work with it, is "other".
    """

    rows: int
    kv_len: int
    passes: int
    unprofiled_ms: float
    profiled_ms: float
    distortion: float
    device_ms: float
    gaps_us: float | None
    host_us: float
    groups: tuple[GroupTime, ...]
    largest_other: tuple[str, ...]


def profile_passes(
    loaded: LoadedModel,
    device: str,
    *,
    row_counts: Sequence[int],
    kv_len: int,
    passes: int,
    ceiling: float | None,
    graphs: bool = True,
) -> Iterator[PassProfile]:
    """Profile decode passes of `loaded` on `device`; each is given out as soon as it is done.

    Args:
        ceiling: bytes/s the device can read; None gives no fraction.
    Raises: UsageError as `check_passes`; SpecmonError where the profiler sees nothing.
    """
    check_passes(row_counts, kv_len, loaded.context_length)
    switch = Switch()
    if loaded.streamed is None:
        loaded = replace(loaded, model=named(loaded.model, switch))
    target = Target(loaded, device, graphs=graphs)
    with torch.inference_mode():
        prompt = [_TOKEN + i % 97 for i in range(kv_len)]
        for _ in target.prefill(prompt, 0, Chooser.greedy(), ()):
            pass
    for rows in row_counts:
        yield _profile(loaded, target, rows, passes, ceiling, switch)


def check_passes(row_counts: Sequence[int], kv_len: int, context_length: int) -> None:
    """Raises: UsageError for rows or a KV length that a model of this context cannot have."""
    for rows in row_counts:
        if not 1 <= rows <= MAX_ROWS:
            raise UsageError(f"A pass of {rows} rows cannot be.", f"Choose 1 to {MAX_ROWS}.")
    room = context_length - MAX_ROWS
    if not 1 <= kv_len <= room:
        raise UsageError(f"A KV length of {kv_len} cannot be.", f"Choose 1 to {room}.")


@torch.inference_mode()
def _profile(
    loaded: LoadedModel, target: Target, rows: int, passes: int, ceiling: float | None, switch: Switch
) -> PassProfile:
    def one_pass() -> None:
        target.verify([_TOKEN] * rows, Chooser.greedy(), ())

    times_ns(one_pass, 3)
    before = times_ns(one_pass, passes)
    switch.on = True
    record(one_pass, 2, target.device)  # the profiler's own start is not to be seen
    profiled, events = record(one_pass, passes, target.device)
    switch.on = False
    unprofiled = statistics.median(before + times_ns(one_pass, passes))
    found = passes_on_cuda(events) if target.device.type == "cuda" else passes_on_cpu(events)
    if not found:
        raise SpecmonError(
            f"The profiler saw no kernel on {target.device}.", "Another profiler may hold CUPTI; close it."
        )
    return _summed(
        loaded,
        target,
        rows,
        unprofiled_ns=unprofiled,
        profiled_ns=profiled,
        found=found,
        ceiling=ceiling,
    )


def _summed(
    loaded: LoadedModel,
    target: Target,
    rows: int,
    *,
    unprofiled_ns: float,
    profiled_ns: list[int],
    found: list[SeenPass],
    ceiling: float | None,
) -> PassProfile:
    kv_len = len(target.held)
    n_bytes = _group_bytes(loaded, kv_len * target.kv.bytes_per_token)
    mean = [time_of for time_of, _ in found]
    profiled = statistics.median(profiled_ns)
    span = _mean(time_of.span for time_of in mean)
    return PassProfile(
        rows=rows,
        kv_len=kv_len,
        passes=len(found),
        unprofiled_ms=unprofiled_ns / 1e6,
        profiled_ms=profiled / 1e6,
        distortion=profiled / unprofiled_ns,
        device_ms=span / 1e6,
        gaps_us=_mean(time_of.gaps for time_of in mean) / 1e3 if target.device.type == "cuda" else None,
        host_us=(_mean(profiled_ns) - span) / 1e3,
        groups=tuple(_group_time(group, mean, span, n_bytes.get(group), ceiling) for group in GROUPS),
        largest_other=_largest_other(found),
    )


def _group_time(
    group: str, mean: list[PassTime], span: float, n_bytes: int | None, ceiling: float | None
) -> GroupTime:
    ns = _mean(time_of.groups[group] for time_of in mean)
    return GroupTime(
        group=group,
        us=ns / 1e3,
        share=ns / span if span else 0.0,
        kernels=_mean(time_of.counts[group] for time_of in mean),
        n_bytes=n_bytes,
        ceiling_fraction=n_bytes / ceiling / (ns / 1e9) if n_bytes and ceiling and ns else None,
    )


def _group_bytes(loaded: LoadedModel, kv_bytes: int) -> dict[str, int]:
    """Bytes a pass must read, by group."""
    by_group = dict.fromkeys(LINEARS, 0)
    for layer in loaded.model.layers:
        by_group["qkv"] += layer.attention.qkv.weight_bytes
        by_group["o"] += layer.attention.o.weight_bytes
        by_group["gate_up"] += layer.mlp.gate_up.weight_bytes
        by_group["down"] += layer.mlp.down.weight_bytes
    by_group["head"] = loaded.model.head.weight_bytes
    return {**by_group, "attention": kv_bytes}


def _largest_other(found: list[SeenPass], n_names: int = 5) -> tuple[str, ...]:
    """Names of the kernels that take most of "other"."""
    sums: dict[str, int] = {}
    for _, own in found:
        for group, kernel in own:
            if group == "other":
                sums[kernel.name] = sums.get(kernel.name, 0) + kernel.end - kernel.start
    return tuple(sorted(sums, key=lambda name: -sums[name])[:n_names])


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return statistics.fmean(listed) if listed else 0.0
