"""`specmon bench draft-len`: speed by draft_len, as measured and as the parts of a round predict it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import bench_files, options
from specmon.tui.commands.bench_choices import chosen_prompts, draft_len_range
from specmon.tui.commands.bench_draft_len_choices import Wanted, decoders_of_machine, parse_decoders
from specmon.tui.commands.bench_figures import check_figure, parse_figures
from specmon.tui.commands.bench_lanes import lane_checks, settle_lanes
from specmon.tui.commands.numbers import bounded
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare
from specmon.tui.ending import interrupted_later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmon.core.bench.draft_len import Measurement, Setting
    from specmon.core.bench.draft_len_report import DraftLenReport
    from specmon.core.bench.prompts import BenchPrompt
    from specmon.core.checks.subject import Kind
    from specmon.core.events import Decoder, Header
    from specmon.tui.commands.bench_engine import BenchEngine
    from specmon.tui.commands.bench_progress import BenchProgress

DraftLens = Annotated[
    str, typer.Option("--draft-len", metavar="K..K", help="Draft lengths to try: 1..10, or 2,4,6.")
]
Decoders = Annotated[
    str,
    typer.Option(
        "--decoder",
        metavar="sd|ssd|sd,ssd",
        help="Besides AR. Default: sd, and ssd where there are two devices.",
    ),
]
Repeats = Annotated[int, typer.Option(metavar="N", help="How often each prompt is decoded.")]
Prompts = Annotated[
    str,
    typer.Option(
        metavar="WHICH[,…]",
        help="Of the evaluation prompts, those of these names, kinds (code, math, prose) or lengths (short, long).",
    ),
]
SweepOnly = Annotated[
    bool,
    typer.Option("--sweep-only", help="Try every K on the evaluation prompts themselves, and stop there."),
]
Figures = Annotated[
    str,
    typer.Option(
        "--figure",
        metavar="GOAL[,GOAL]",
        help="With --out: also write these goals' figures to figures.json there: h200x2.ssd.…, embedded.….tau_k4.",
    ),
]

SEED = 0  # of the bootstrap


@dataclass
class Found:
    """What is measured so far; an interruption leaves it as it is. `whole`: nothing is left to measure."""

    sweep: Measurement | None = None
    evaluation: Measurement | None = None
    header: Header | None = None
    whole: bool = False


def draft_len(
    ctx: typer.Context,
    target: options.Target = "smollm2",
    draft: options.Draft = "auto",
    draft_len: DraftLens = "1..8",
    decoder: Decoders = "",
    draft_nodes: options.DraftNodes = 0,
    fan_out: options.FanOut = "1",
    recipe: options.Recipe = "auto",
    backend: options.Backend = "auto",
    graphs: options.Graphs = "on",
    devices: options.Devices = "auto",
    max_new_tokens: options.MaxNewTokens = 64,
    repeats: Repeats = 1,
    prompts: Prompts = "",
    sweep_only: SweepOnly = False,
    out: bench_files.Out = None,
    name: bench_files.Name = "",
    figure: Figures = "",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Find how speed depends on K, as measured and as predicted; exit code 1 if tokens differ.

    AR, and SD and SSD at every K, decode the tuning prompts; each K's round is held against what its own t_d, t_v,
    t_branch and hits predict. Then each at its own best K decodes the evaluation prompts, which gives SSD over SD with its
    95 % interval.
    """
    draft_lens = draft_len_range(draft_len, "--draft-len")
    config = options.lane_config(
        decoder="sd",
        target=target,
        draft=draft,
        recipe=recipe,
        devices=devices,
        draft_len=draft_lens[-1],
        fan_out=fan_out,
        draft_nodes=draft_nodes,
        backend=backend,
        graphs=graphs,
    )
    if len(config.fan_out) > 1 and len(draft_lens) > 1:
        raise UsageError("--draft-len needs a fan-out that fits every K.", "Give one number to --fan-out.")
    wanted = Wanted(
        config=config,
        decoders=parse_decoders(decoder),
        draft_lens=draft_lens,
        prompts=chosen_prompts(prompts),
        repeats=bounded(repeats, "--repeats", 1),
        max_new_tokens=bounded(max_new_tokens, "--max-new-tokens", 1),
        sweep_only=sweep_only,
    )
    goals = parse_figures(figure, out)
    files = bench_files.report_files(out, name, force, benchmark="draft-len")
    prepare([config])
    if not decoder:
        wanted = replace(wanted, decoders=decoders_of_machine(devices))
    checks = _settle(wanted, goals)
    bench_files.make_folder(files)
    found = Found()
    try:
        _measure(wanted, found, debug=bool(ctx.obj))
    finally:
        with interrupted_later():
            report = _report(wanted, found, checks)
            if report is not None:
                _tell(report, files, json=json, whole=found.whole)
    assert report is not None
    if report.faults:
        raise SpecmonError(report.faults[0])
    if files is not None and goals:
        _write_figures(report, files[1], goals)


def _settle(wanted: Wanted, goals: Sequence[str]) -> dict[Decoder, tuple[Kind, ...]]:
    """The checks passed, by decoder; refuses lanes that cannot work here, and a figure that this run does not measure."""
    from specmon.core.bench.figure_needs import NEEDS, Planned

    settled = {lane.config.decoder: lane for lane in settle_lanes(wanted.configs)}
    for goal in goals:
        lanes = [settled[decoder] for decoder in NEEDS[goal].decoders if decoder in settled]
        planned = Planned(
            lanes=lanes,
            draft_lens=wanted.draft_lens,
            prompts=wanted.prompts,
            sweep_only=wanted.sweep_only,
        )
        check_figure(goal, planned)
    return dict(zip(settled, lane_checks(list(settled.values())), strict=True))


# --- measuring ---------------------------------------------------------------------------------------------------


def _measure(wanted: Wanted, found: Found, *, debug: bool) -> None:
    from specmon.core.bench.draft_len import AR, Setting, all_settings, rows_of
    from specmon.core.bench.draft_len_report import best_of
    from specmon.core.bench.prompts import bench_prompts
    from specmon.tui.commands.bench_engine import BenchEngine
    from specmon.tui.commands.bench_progress import BenchProgress

    progress = BenchProgress()
    try:
        with BenchEngine(progress.say, debug=debug) as engine:
            for lane, config in enumerate(wanted.configs):
                engine.load(lane, config)
            found.header = engine.header
            tuning = [prompt for prompt in bench_prompts() if prompt.set == "tuning"]
            prompts = wanted.prompts if wanted.sweep_only else tuning
            settings = all_settings(wanted.decoders, wanted.draft_lens)
            found.sweep = _planned(wanted, settings, prompts)
            _run(wanted, found.sweep, "sweeping", engine, progress)
            rows = rows_of(found.sweep, SEED)
            best = [Setting(best.decoder, best.draft_len) for best in best_of(rows)]
            if best and not wanted.sweep_only and not any(row.fault for row in rows):
                found.evaluation = _planned(wanted, [AR, *best], wanted.prompts)
                _run(wanted, found.evaluation, "evaluating", engine, progress)
            found.whole = True
    finally:
        progress.close()


def _planned(wanted: Wanted, settings: Sequence[Setting], prompts: Sequence[BenchPrompt]) -> Measurement:
    from specmon.core.bench.draft_len import Measurement
    from specmon.core.bench.pairs import Plan

    plan = Plan(
        n_lanes=len(settings),
        prompts=prompts,
        repeats=wanted.repeats,
        max_new_tokens=wanted.max_new_tokens,
    )
    return Measurement(settings=settings, plan=plan)


def _run(wanted: Wanted, done: Measurement, what: str, engine: BenchEngine, progress: BenchProgress) -> None:
    from specmon.core.bench.draft_len import on_lanes
    from specmon.core.bench.pairs import measure

    lane_of = {decoder: lane for lane, decoder in enumerate(wanted.all_decoders)}
    progress.begin(what, done.plan.n_requests, "requests")
    for measured in measure(done.plan, on_lanes(engine.decode, done.settings, lane_of)):
        done.measured.append(measured)
        progress.done()


# --- telling -----------------------------------------------------------------------------------------------------


def _report(wanted: Wanted, found: Found, checks: dict[Decoder, tuple[Kind, ...]]) -> DraftLenReport | None:
    """The report on what was measured; None where nothing was."""
    if found.header is None or found.sweep is None or not found.sweep.measured:
        return None
    from specmon.core.bench.draft_len_report import draft_len_report
    from specmon.core.bench.provenance import of_engine
    from specmon.tui.commands.bench_engine import device_ceilings

    return draft_len_report(
        found.sweep,
        found.evaluation,
        config=wanted.config,
        checks=checks,
        command=shlex.join(["specmon", *sys.argv[1:]]),
        provenance=of_engine(found.header),
        devices=device_ceilings(found.header),
        ceiling_source=found.header.ceiling_source,
        seed=SEED,
    )


def _tell(report: DraftLenReport, files: bench_files.Files | None, *, json: bool, whole: bool) -> None:
    from specmon.core.bench.draft_len_markdown import markdown

    last = report.stages[-1]
    if last.interrupted:
        say(f"Interrupted: the report holds {last.n_requests} of the last {last.n_planned} requests.")
    bench_files.give_report(report, markdown(report), files, json=json, whole=whole)


def _write_figures(report: DraftLenReport, note: Path, goals: Sequence[str]) -> None:
    from specmon.core.bench.draft_len_figures import figure_of
    from specmon.core.bench.figures import record_figures

    for goal in goals:
        value = figure_of(report, goal)
        if value is None:
            raise SpecmonError(f"{goal} is not written: this run did not measure it.")
        record_figures(note.parent / "figures.json", {goal: value}, report.provenance, note.name)
