"""`specmon bench paired`: two or more configurations on the same prompts, alternating in one run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError
from specmon.tui.commands import bench_files, options
from specmon.tui.commands.bench_choices import chosen_prompts, parse_draft_lens
from specmon.tui.commands.bench_figures import check_figure, parse_figure
from specmon.tui.commands.bench_lanes import lane_checks, settle_lanes
from specmon.tui.commands.lane_words import Lanes, lane_configs
from specmon.tui.commands.numbers import bounded
from specmon.tui.commands.option_groups import LaneOptions, grouped
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare
from specmon.tui.ending import interrupted_later

if TYPE_CHECKING:
    from specmon.core.bench.choose_k import TunedK
    from specmon.core.bench.lanes import BenchLane
    from specmon.core.bench.pairs import Measured, Plan
    from specmon.core.bench.report import LaneTuning, PairedReport
    from specmon.core.checks.subject import Kind
    from specmon.core.engine.messages import LaneConfig
    from specmon.core.events import Header
    from specmon.tui.commands.bench_engine import BenchEngine
    from specmon.tui.commands.bench_progress import BenchProgress

Repeats = Annotated[int, typer.Option(metavar="N", help="How often each lane decodes each prompt.")]
Prompts = Annotated[
    str,
    typer.Option(
        metavar="WHICH[,…]",
        help="Of the evaluation prompts, those of these names, kinds (code, math, prose) or lengths (short, long).",
    ),
]
ChooseK = Annotated[
    str,
    typer.Option(
        metavar="K..K", help="Find each lane's own best draft_len in this range on the tuning prompts."
    ),
]
Control = Annotated[
    bool, typer.Option(help="Measure the first lane twice, to see how much equal lanes differ.")
]
FigureName = Annotated[
    str,
    typer.Option(
        "--figure",
        metavar="GOAL[=B/A]",
        help="With --out: also write this goal's figure to figures.json there, from B over A in decoding.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the bootstrap.")]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The checked options."""

    configs: Sequence[LaneConfig]
    plan: Plan
    draft_lens: Sequence[int]
    control: bool
    seed: int
    figure: tuple[str, str, str] | None


@dataclass
class Found:
    """What is known so far; an interruption leaves it as it is. `whole`: nothing is left to measure.

    `checks`: those passed, by a lane's letter.
    """

    checks: dict[str, tuple[Kind, ...]]
    lanes: Sequence[BenchLane] = ()
    tuned: list[list[TunedK]] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    header: Header | None = None
    whole: bool = False


@grouped
def paired(
    ctx: typer.Context,
    lane: Lanes = None,
    *,
    shared: LaneOptions,
    max_new_tokens: options.MaxNewTokens = 128,
    repeats: Repeats = 3,
    prompts: Prompts = "",
    choose_k: ChooseK = "",
    control: Control = True,
    seed: Seed = 0,
    out: bench_files.Out = None,
    name: bench_files.Name = "",
    figure: FigureName = "",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Compare configurations: how many times as fast each is, with 95 % intervals; exit code 1 if tokens differ."""
    from specmon.core.bench.lanes import bench_lanes
    from specmon.core.bench.pairs import Plan

    configs = lane_configs(lane, shared)
    draft_lens = parse_draft_lens(choose_k, configs)
    lanes = bench_lanes(configs, control=control)
    plan = Plan(
        n_lanes=len(lanes),
        prompts=chosen_prompts(prompts),
        repeats=bounded(repeats, "--repeats", 1),
        max_new_tokens=bounded(max_new_tokens, "--max-new-tokens", 1),
    )
    letters = [known.letter for known in lanes[: len(configs)]]
    wanted = Wanted(
        configs=configs,
        plan=plan,
        draft_lens=draft_lens,
        control=control,
        seed=bounded(seed, "--seed"),
        figure=parse_figure(figure, letters, out) if figure else None,
    )
    files = bench_files.report_files(out, name, force, benchmark="paired")
    prepare(configs)
    checks = dict(zip(letters, _settle(wanted, letters), strict=True))
    bench_files.make_folder(files)
    found = Found(checks=checks)
    try:
        _measure(wanted, found, debug=bool(ctx.obj))
    finally:
        with interrupted_later():
            report = _report(wanted, found)
            if report is not None:
                _tell(report, files, json=json, whole=found.whole)
    assert report is not None
    if report.faults:
        raise SpecmonError(report.faults[0])
    if files is not None and wanted.figure is not None:
        _write_figure(report, files[1], wanted.figure)


def _settle(wanted: Wanted, letters: Sequence[str]) -> list[tuple[Kind, ...]]:
    """The checks passed for each lane; refuses lanes that cannot work here, and a figure that is not of these lanes."""
    settled = settle_lanes(wanted.configs)
    if wanted.figure is not None:
        from specmon.core.bench.figure_needs import Planned

        goal, *pair = wanted.figure
        lanes = [settled[letters.index(letter)] for letter in pair]
        check_figure(goal, Planned(lanes=lanes, draft_lens=wanted.draft_lens, prompts=wanted.plan.prompts))
    return lane_checks(settled)


# --- measuring ---------------------------------------------------------------------------------------------------


def _measure(wanted: Wanted, found: Found, *, debug: bool) -> None:
    from specmon.core.bench.lanes import bench_lanes
    from specmon.core.bench.pairs import measure
    from specmon.tui.commands.bench_engine import BenchEngine
    from specmon.tui.commands.bench_progress import BenchProgress

    progress = BenchProgress()
    try:
        with BenchEngine(progress.say, debug=debug) as engine:
            try:
                configs = _tuned(wanted, found, engine, progress)
                found.lanes = bench_lanes(configs, control=wanted.control)
                for number, lane in enumerate(found.lanes):
                    engine.load(number, lane.config)
                progress.begin("measuring", wanted.plan.n_requests, "requests")
                for measured in measure(wanted.plan, engine.decode):
                    found.measured.append(measured)
                    progress.done()
                found.whole = True
            finally:
                found.header = engine.header
    finally:
        progress.close()


def _tuned(
    wanted: Wanted, found: Found, engine: BenchEngine, progress: BenchProgress
) -> Sequence[LaneConfig]:
    """Each lane at its own best draft_len, where that is asked for."""
    from msgspec.structs import replace

    from specmon.core.bench.choose_k import best_draft_len, try_draft_lens
    from specmon.core.bench.prompts import bench_prompts

    if not wanted.draft_lens:
        return wanted.configs
    prompts = [prompt for prompt in bench_prompts() if prompt.set == "tuning"]
    n_lanes = sum(config.decoder != "ar" for config in wanted.configs)
    progress.begin("choosing K", n_lanes * len(wanted.draft_lens), "settings")
    chosen = []
    for number, config in enumerate(wanted.configs):
        tried: list[TunedK] = []
        found.tuned.append(tried)
        if config.decoder != "ar":
            for known in try_draft_lens(
                number,
                config,
                wanted.draft_lens,
                prompts,
                wanted.plan.max_new_tokens,
                load=engine.load,
                decode=engine.decode,
            ):
                if known is not None:
                    tried.append(known)
                progress.done()
        chosen.append(replace(config, draft_len=best_draft_len(tried)) if tried else config)
    return chosen


# --- telling -----------------------------------------------------------------------------------------------------


def _report(wanted: Wanted, found: Found) -> PairedReport | None:
    """The report on what was measured; None where nothing was."""
    if not (found.measured or any(found.tuned)) or found.header is None:
        return None
    from specmon.core.bench.lanes import CONTROL, bench_lanes
    from specmon.core.bench.provenance import of_engine
    from specmon.core.bench.verdicts import paired_report
    from specmon.tui.commands.bench_engine import device_ceilings

    return paired_report(
        found.measured,
        lanes=found.lanes or bench_lanes(wanted.configs, control=wanted.control),
        tuning=_tuning(wanted, found),
        plan=wanted.plan,
        checks={CONTROL: next(iter(found.checks.values())), **found.checks},
        command=shlex.join(["specmon", *sys.argv[1:]]),
        provenance=of_engine(found.header),
        devices=device_ceilings(found.header),
        ceiling_source=found.header.ceiling_source,
        seed=wanted.seed,
    )


def _tuning(wanted: Wanted, found: Found) -> list[LaneTuning]:
    """What was tried of each lane that drafts; its choice only where all lanes have theirs."""
    from specmon.core.bench.lanes import bench_lanes
    from specmon.core.bench.report import LaneTuning

    return [
        LaneTuning(
            letter=lane.letter,
            label=lane.label,
            chosen=lane.config.draft_len if found.lanes else None,
            tried=tuple(tried),
        )
        for lane, tried in zip(
            found.lanes or bench_lanes(wanted.configs, control=False), found.tuned, strict=False
        )
        if tried
    ]


def _tell(report: PairedReport, files: bench_files.Files | None, *, json: bool, whole: bool) -> None:
    from specmon.core.bench.markdown import markdown

    if report.interrupted:
        say(f"Interrupted: the report holds {len(report.requests)} of {report.n_planned} requests.")
    bench_files.give_report(report, markdown(report), files, json=json, whole=whole)


def _write_figure(report: PairedReport, note: Path, figure: tuple[str, str, str]) -> None:
    from specmon.core.bench.figures import record_figures

    goal, faster, slower = figure
    pair = next(pair for pair in report.pairs if (pair.a, pair.b) == (slower, faster))
    if pair.equal is not True or pair.decode is None:
        raise SpecmonError(f"{goal} is not written: lanes {slower} and {faster} were not found equal.")
    record_figures(note.parent / "figures.json", {goal: pair.decode.median}, report.provenance, note.name)
