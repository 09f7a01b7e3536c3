"""`specmon bench profile`: where a decode pass spends its time, by groups of kernels."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import bench_files, options
from specmon.tui.commands.bench_choices import at_least_one
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare

if TYPE_CHECKING:
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
    name: bench_files.Name = "profile",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Profile the target's decode passes: µs by group of kernels, gaps, and by how much profiling stretches them."""
    config = options.lane_config(
        decoder="ar",
        target=target,
        draft="auto",
        recipe=recipe,
        backend=backend,
        devices=device,
        graphs=graphs,
        draft_len=1,
        fan_out="1",
    )
    row_counts = parse_rows(rows)
    at_least_one(context, "--context")
    at_least_one(passes, "--passes")
    files = bench_files.report_files(out, name, force)
    prepare([config])
    report = _measure(config, row_counts, context, passes)
    from specmon.core.bench.profile_report import markdown

    bench_files.give_report(report, markdown(report), files, json=json)


def parse_rows(text: str) -> list[int]:
    """Read "1,5". Raises: UsageError."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) for word in words):
        raise UsageError(f"--rows is {text!r}, but it takes numbers of 1 or more, like 1,5.")
    return [int(word) for word in words]


def _measure(config: LaneConfig, row_counts: list[int], context: int, passes: int) -> ProfileReport:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler announces each of its starts otherwise
    from specmon.core.bench.profile import profile_passes
    from specmon.core.bench.profile_report import ProfileReport
    from specmon.core.bench.provenance import provenance
    from specmon.core.ceilings import cache_bytes, cuda_uuids, measure_ceilings
    from specmon.core.hardware import resolve_devices, survey
    from specmon.core.metrics.bandwidth import CACHE_RESIDENT
    from specmon.core.models.pool import ModelPool

    machine = survey(cuda_uuids())
    device = resolve_devices(config.devices, machine).names[0]
    say(f"measuring memory read speed of {device}")
    ceilings, source = measure_ceilings((device,), machine)
    _claim(device, machine.core_of.get(device))
    say(f"loading {config.target}")
    loaded = ModelPool().target(config.target, config.recipe, device, lambda what, part: None, config.backend)
    cached = loaded.model.weight_bytes <= (cache_bytes(device, machine) or 0)
    say(f"profiling passes of {', '.join(map(str, row_counts))} rows")
    profiles = profile_passes(
        loaded,
        device,
        row_counts=row_counts,
        kv_len=context,
        passes=passes,
        ceiling=None if cached else ceilings[device],
        graphs=config.graphs,
    )
    return ProfileReport(
        command=shlex.join(["specmon", *sys.argv[1:]]),
        provenance=provenance(f"{device}: {machine.devices[device].model}", ("torch",)),
        target=loaded.source.label,
        recipe=loaded.recipe.name,
        backend=loaded.recipe.backend,
        graphs=config.graphs and loaded.streamed is not None,
        device=device,
        read_ceiling=ceilings[device],
        ceiling_source=f"{ceilings[device] / 1e9:,.1f} GB/s, {source}{f'; {CACHE_RESIDENT}' if cached else ''}",
        profiles=tuple(profiles),
    )


def _claim(device: str, core: int | None) -> None:
    """Run as the engine does: one thread, on a CPU device on its own core."""
    import torch

    if device.startswith("cuda:"):
        torch.cuda.set_device(device)
        return
    torch.set_num_threads(1)
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
