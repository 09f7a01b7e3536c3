"""`specmon bench paired`: two or more configurations on the same prompts, alternating in one run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import options
from specmon.tui.commands.bench_lanes import Lanes, lane_configs
from specmon.tui.commands.output import say, write_json, write_line
from specmon.tui.commands.prepare import prepare

if TYPE_CHECKING:
    from specmon.core.bench.choose_k import TunedK
    from specmon.core.bench.lanes import BenchLane
    from specmon.core.bench.pairs import Measured, Plan
    from specmon.core.bench.prompts import BenchPrompt
    from specmon.core.bench.report import DeviceCeilings, PairedReport
    from specmon.core.engine.messages import LaneConfig
    from specmon.core.events import Header
    from specmon.tui.commands.bench_engine import BenchEngine
    from specmon.tui.commands.bench_progress import BenchProgress

MAX_DRAFT_LEN = 15

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
Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write the report there, as JSON and as Markdown.")
]
Name = Annotated[str, typer.Option(metavar="NAME", help="With --out: the files are called DATE-NAME.")]
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
    """What is known so far; an interruption leaves it as it is."""

    lanes: Sequence[BenchLane] = ()
    tuned: list[list[TunedK]] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    header: Header | None = None


def paired(
    ctx: typer.Context,
    lane: Lanes = None,
    target: options.Target = "smollm2",
    draft: options.Draft = "auto",
    draft_len: options.DraftLen = 4,
    fan_out: options.FanOut = "1",
    recipe: options.Recipe = "auto",
    backend: options.Backend = "auto",
    graphs: options.Graphs = "on",
    devices: options.Devices = "auto",
    max_new_tokens: options.MaxNewTokens = 128,
    repeats: Repeats = 3,
    prompts: Prompts = "",
    choose_k: ChooseK = "",
    control: Control = True,
    seed: Seed = 0,
    out: Out = None,
    name: Name = "paired",
    figure: FigureName = "",
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Compare configurations: how many times as fast each is, with 95 % intervals; exit code 1 if tokens differ."""
    from specmon.core.bench.lanes import bench_lanes
    from specmon.core.bench.pairs import Plan

    shared = {
        "decoder": "ar",
        "target": target,
        "draft": draft,
        "draft-len": str(draft_len),
        "fan-out": fan_out,
        "recipe": recipe,
        "backend": backend,
        "graphs": graphs,
        "devices": devices,
    }
    configs = lane_configs(lane, shared)
    draft_lens = parse_draft_lens(choose_k, configs)
    lanes = bench_lanes(configs, control=control)
    plan = Plan(
        n_lanes=len(lanes),
        prompts=chosen_prompts(prompts),
        repeats=_at_least_one(repeats, "--repeats"),
        max_new_tokens=_at_least_one(max_new_tokens, "--max-new-tokens"),
    )
    letters = [known.letter for known in lanes[: len(configs)]]
    wanted = Wanted(
        configs=configs,
        plan=plan,
        draft_lens=draft_lens,
        control=control,
        seed=seed,
        figure=parse_figure(figure, letters, out) if figure else None,
    )
    files = _files(out, name, force)
    prepare(configs)
    found = Found()
    try:
        _measure(wanted, found, debug=bool(ctx.obj))
    finally:
        report = _report(wanted, found)
        if report is not None:
            _tell(report, json=json)
            _write(report, files)
    assert report is not None
    if report.faults:
        raise SpecmonError(report.faults[0])
    if files is not None and wanted.figure is not None:
        _write_figure(report, files[1], wanted.figure)


# --- reading the options -----------------------------------------------------------------------------------------


def parse_draft_lens(text: str, configs: Sequence[LaneConfig]) -> list[int]:
    """Read 1..10 or 2,4,6; [] where empty. Raises: UsageError where that, or a lane, cannot be tuned so."""
    if not text:
        return []
    low, dots, high = text.partition("..")
    words = [low, high] if dots else text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--choose-k is {text!r}, but it takes a range like 1..10, or numbers like 2,4,6.")
    numbers = [int(word) for word in words]
    found = list(range(numbers[0], numbers[1] + 1)) if dots else sorted(set(numbers))
    if not found or found[0] < 1 or found[-1] > MAX_DRAFT_LEN:
        raise UsageError(f"--choose-k is {text!r}, but a draft has 1 to {MAX_DRAFT_LEN} tokens.")
    if all(config.decoder == "ar" for config in configs):
        raise UsageError("--choose-k has no lane that drafts.", "Add one with --lane sd.")
    if any(len(config.fan_out) > 1 for config in configs):
        raise UsageError("--choose-k needs a fan-out that fits every K.", "Give one number to --fan-out.")
    return found


def chosen_prompts(text: str) -> list[BenchPrompt]:
    """The evaluation prompts that `text` names; all where it is empty. Raises: UsageError."""
    from specmon.core.bench.prompts import bench_prompts

    all_of_them = [prompt for prompt in bench_prompts() if prompt.set == "evaluation"]
    words = [word.strip() for word in text.split(",")] if text else []
    for word in words:
        if not any(word in (prompt.name, prompt.kind, prompt.length) for prompt in all_of_them):
            names = ", ".join(prompt.name for prompt in all_of_them)
            raise UsageError(f"--prompts has {word!r}, but it takes {names}, a kind or a length.")
    return [p for p in all_of_them if not words or {p.name, p.kind, p.length} & set(words)]


def parse_figure(text: str, letters: Sequence[str], out: Path | None) -> tuple[str, str, str]:
    """Read "GOAL=B/A": the goal, and the letters of both lanes. Raises: UsageError."""
    from specmon.core.bench.figures import GOALS

    goal, _, lanes = text.partition("=")
    faster, _, slower = (lanes or "B/A").partition("/")
    speed_ups = [
        name for name, known in GOALS.items() if known.unit == "ratio" and known.text.startswith("≥")
    ]
    if goal not in speed_ups:
        raise UsageError(
            f"--figure is {goal!r}, but it takes a goal that is a speed-up: {', '.join(speed_ups)}."
        )
    if out is None:
        raise UsageError("--figure needs --out, the folder of figures.json.")
    if faster not in letters or slower not in letters or letters.index(faster) <= letters.index(slower):
        raise UsageError(f"--figure has {lanes!r}, but it takes a later lane over an earlier one, like B/A.")
    return goal, faster, slower


def _at_least_one(number: int, option: str) -> int:
    if number < 1:
        raise UsageError(f"{option} is {number}, but it must be 1 or more.")
    return number


def _files(out: Path | None, name: str, force: bool) -> tuple[Path, Path] | None:
    """Where the report goes, JSON and Markdown; checked before anything is measured. Raises: UsageError."""
    from specmon.core.bench.provenance import today

    if out is None:
        return None
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out is {out}, which is no folder.")
    if not name or "/" in name:
        raise UsageError(f"--name is {name!r}, but it takes a part of a file's name.")
    stem = out / f"{today()}-{name}"
    files = stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".md")
    for file in files:
        if file.exists() and not force:
            raise UsageError(f"{file} exists.", "Give another --name, or --force.")
    return files


# --- measuring ---------------------------------------------------------------------------------------------------


def _measure(wanted: Wanted, found: Found, *, debug: bool) -> None:
    from specmon.core.bench.lanes import bench_lanes
    from specmon.core.bench.pairs import measure
    from specmon.tui.commands.bench_engine import BenchEngine
    from specmon.tui.commands.bench_progress import BenchProgress

    progress = BenchProgress()
    try:
        with BenchEngine(progress.say, debug=debug) as engine:
            configs = _tuned(wanted, found, engine, progress)
            found.lanes = bench_lanes(configs, control=wanted.control)
            for number, lane in enumerate(found.lanes):
                engine.load(number, lane.config)
            found.header = engine.header
            progress.begin("measuring", wanted.plan.n_requests, "requests")
            for measured in measure(wanted.plan, engine.decode):
                found.measured.append(measured)
                progress.done()
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
        for draft_len in wanted.draft_lens if config.decoder != "ar" else ():
            tried += try_draft_lens(
                number,
                config,
                [draft_len],
                prompts,
                wanted.plan.max_new_tokens,
                load=engine.load,
                decode=engine.decode,
            )
            progress.done()
        found.tuned.append(tried)
        chosen.append(replace(config, draft_len=best_draft_len(tried)) if tried else config)
    return chosen


# --- telling -----------------------------------------------------------------------------------------------------


def _report(wanted: Wanted, found: Found) -> PairedReport | None:
    """The report on what was measured; None where nothing was."""
    if not found.measured or found.header is None:
        return None
    from specmon.core.bench.provenance import of_engine
    from specmon.core.bench.report import paired_report

    return paired_report(
        found.measured,
        lanes=found.lanes,
        tuned=found.tuned,
        plan=wanted.plan,
        command=shlex.join(["specmon", *sys.argv[1:]]),
        provenance=of_engine(found.header),
        devices=_ceilings(found.header),
        ceiling_source=found.header.ceiling_source,
        seed=wanted.seed,
    )


def _ceilings(header: Header) -> tuple[DeviceCeilings, ...]:
    """Each device's read ceiling as the engine measured it at the start, and its copy ceiling, measured now."""
    from specmon.core.bench.report import DeviceCeilings
    from specmon.core.ceilings import cuda_uuids, measure_copies
    from specmon.core.hardware import survey

    names = tuple(device.name for device in header.devices)
    copies = measure_copies(names, survey(cuda_uuids()))
    return tuple(
        DeviceCeilings(name=d.name, model=d.model, read=d.read_ceiling, copy=copies[d.name])
        for d in header.devices
    )


def _tell(report: PairedReport, *, json: bool) -> None:
    import msgspec

    from specmon.core.bench.markdown import markdown

    if report.interrupted:
        say(f"Interrupted: the report holds {len(report.requests)} of {report.n_planned} requests.")
    if json:
        write_json(msgspec.to_builtins(report))
    else:
        write_line(markdown(report).rstrip())


def _write(report: PairedReport, files: tuple[Path, Path] | None) -> None:
    """The files of --out."""
    if files is None:
        return
    import msgspec

    from specmon.core.bench.markdown import markdown

    as_json, as_markdown = files
    as_json.parent.mkdir(parents=True, exist_ok=True)
    as_json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    as_markdown.write_text(markdown(report), "utf-8")
    say(f"Written to {as_json} and {as_markdown.name}.")


def _write_figure(report: PairedReport, note: Path, figure: tuple[str, str, str]) -> None:
    from specmon.core.bench.figures import record_figures

    goal, faster, slower = figure
    pair = next(pair for pair in report.pairs if (pair.a, pair.b) == (slower, faster))
    if pair.equal is not True or pair.decode is None:
        raise SpecmonError(f"{goal} is not written: lanes {slower} and {faster} were not found equal.")
    record_figures(note.parent / "figures.json", {goal: pair.decode.median}, report.provenance, note.name)
