"""`specmon bench profile`: where a decode pass spends its time, by groups of kernels."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import bench_files, options
from specmon.tui.commands.bench_lanes import settle_lanes
from specmon.tui.commands.numbers import bounded, whole_number
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare
from specmon.tui.ending import interrupted_later

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specmon.core.bench.profile import PassProfile
    from specmon.core.bench.profile_report import ProfileReport
    from specmon.core.engine.messages import LaneConfig

Rows = Annotated[
    str, typer.Option(metavar="R[,R…]", help="Rows of a pass: 1 is an AR step, K + 1 verifies K tokens.")
]
Context = Annotated[int, typer.Option(metavar="N", help="Positions in the KV cache.")]
Passes = Annotated[int, typer.Option(metavar="N", help="Passes to take the mean of.")]


def profile(
    target: options.Target = "smollm2",
    recipe: options.Recipe = "auto",
    backend: options.Backend = "auto",
    graphs: options.Graphs = "on",
    device: Annotated[str, typer.Option(metavar="D", help="auto, or one device: cuda:0.")] = "auto",
    rows: Rows = "1,5",
    context: Context = 500,
    passes: Passes = 20,
    out: bench_files.Out = None,
    name: bench_files.Name = "",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Profile the target's decode passes: µs by group of kernels, gaps, and by how much profiling stretches them."""
    config = options.target_alone(target, recipe, backend, graphs, device)
    if "," in device:
        raise UsageError(f"--device is {device!r}, but a profile is of one device.")
    row_counts = parse_rows(rows)
    bounded(context, "--context", 1)
    bounded(passes, "--passes", 1)
    files = bench_files.report_files(out, name, force, benchmark="profile")
    prepare([config])
    _settle(config, row_counts, context)
    bench_files.make_folder(files)
    report: ProfileReport | None = None
    try:
        for so_far in _reports(config, row_counts, context, passes):
            report = so_far
    finally:
        with interrupted_later():
            if report is not None:
                _tell(report, files, json=json)


def parse_rows(text: str) -> list[int]:
    """Read "1,5", each number once. Raises: UsageError."""
    numbers = [whole_number(word) for word in text.split(",")]
    if not all(numbers):
        raise UsageError(f"--rows is {text!r}, but it takes numbers of 1 or more, like 1,5.")
    return list(dict.fromkeys(number for number in numbers if number))


def _settle(config: LaneConfig, row_counts: list[int], context: int) -> None:
    """Refuse a configuration that cannot work here, and passes that its model cannot have."""
    from specmon.core.bench.profile import check_passes

    [settled] = settle_lanes([config])
    check_passes(row_counts, context, settled.context_length)


def _reports(config: LaneConfig, row_counts: list[int], context: int, passes: int) -> Iterator[ProfileReport]:
    """The report after each row count that is done; all but the last one are `interrupted`."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler announces each of its starts otherwise
    from specmon.core.bench.profile import profile_passes
    from specmon.core.bench.profile_report import ProfileReport
    from specmon.core.bench.provenance import provenance
    from specmon.core.ceilings import cache_bytes, cuda_uuids, measure_ceilings
    from specmon.core.hardware import resolve_devices, survey
    from specmon.core.metrics.bandwidth import CACHE_RESIDENT
    from specmon.core.models.pool import ModelPool, unwatched

    machine = survey(cuda_uuids())
    device = resolve_devices(config.devices, machine).names[0]
    say(f"measuring memory read speed of {device}")
    ceilings, source = measure_ceilings((device,), machine)
    _claim(device, machine.core_of.get(device))
    say(f"loading {config.target}")
    loaded = ModelPool().target(config.target, config.recipe, device, unwatched, config.backend)
    cached = loaded.model.weight_bytes <= (cache_bytes(device, machine) or 0)
    say(f"profiling passes of {', '.join(map(str, row_counts))} rows")
    profiles: list[PassProfile] = []
    for profile in profile_passes(
        loaded,
        device,
        row_counts=row_counts,
        kv_len=context,
        passes=passes,
        ceiling=None if cached else ceilings[device],
        graphs=config.graphs,
    ):
        profiles.append(profile)
        yield ProfileReport(
            command=shlex.join(["specmon", *sys.argv[1:]]),
            provenance=provenance(f"{device}: {machine.devices[device].model}", ("torch", "triton")),
            target=loaded.source.label,
            recipe=loaded.recipe.name,
            backend=loaded.recipe.backend,
            graphs=config.graphs and loaded.streamed is not None,
            device=device,
            read_ceiling=ceilings[device],
            ceiling_source=f"{ceilings[device] / 1e9:,.1f} GB/s, {source}{f'; {CACHE_RESIDENT}' if cached else ''}",
            row_counts=tuple(row_counts),
            interrupted=len(profiles) < len(row_counts),
            profiles=tuple(profiles),
        )


def _tell(report: ProfileReport, files: bench_files.Files | None, *, json: bool) -> None:
    from specmon.core.bench.profile_report import markdown

    if report.interrupted:
        say(f"Interrupted: the report holds {len(report.profiles)} of {len(report.row_counts)} row counts.")
    bench_files.give_report(report, markdown(report), files, json=json, whole=not report.interrupted)


def _claim(device: str, core: int | None) -> None:
    """Run as the engine does: one thread, on a CPU device on its own core."""
    import torch

    if device.startswith("cuda:"):
        torch.cuda.set_device(device)
        return
    torch.set_num_threads(1)
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
