"""`specmon check reference`: a target's logits against Hugging Face's, along a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import bench_files, options
from specmon.tui.commands.bench_lanes import settle_lanes
from specmon.tui.commands.check_run import (
    Device,
    check_one_device,
    fail_on,
    give,
    load_alone,
    made_on,
    note,
    subjects_of,
    this_command,
)
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare

if TYPE_CHECKING:
    from specmon.core.checks.distance import Along
    from specmon.core.checks.reference import Run
    from specmon.core.checks.reports import ReferenceReport
    from specmon.core.checks.subject import Subject
    from specmon.core.decoders.settle import Settled

RECIPES = ("fp32", "bf16")
Recipes = Annotated[
    str, typer.Option("--recipe", metavar="NAME[,NAME]", help="Of fp32 and bf16, those to compare.")
]
Long = Annotated[
    bool | None,
    typer.Option(
        "--long/--short", help="Also prefill 2,047, 2,048 and 2,049 tokens. Default: on a GPU alone."
    ),
]


@dataclass
class Found:
    """What is compared so far."""

    n_tokens: int = 0
    rounding: Along | None = None
    runs: list[Run] = field(default_factory=list)


def reference(
    target: options.Target = "smollm2",
    recipe: Recipes = "fp32,bf16",
    backend: options.Backend = "auto",
    graphs: options.Graphs = "on",
    device: Device = "auto",
    long: Long = None,
    out: bench_files.Out = None,
    name: bench_files.Name = "",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Check logits against Hugging Face's on the same weights; exit code 1 beyond a bound, naming where it jumps.

    Prefill (255, 256 and 257 tokens, across the border of a chunk) and cached decode apart. fp32: largest relative error
    0.001, total variation distance 0.001. bf16, from Hugging Face's fp32: 1.5 times its own bf16's distance in the mean
    and 3 times its largest at one position, 0.01 more each.
    """
    from specmon.core.checks.markdown import reference_markdown

    check_one_device(device)
    chosen = parse_recipes(recipe)
    configs = [options.target_alone(target, word, backend, graphs, device) for word in chosen]
    files = bench_files.report_files(out, name, force, benchmark="check-reference")
    prepare(configs)
    settled = settle_lanes(configs)
    bench_files.make_folder(files)
    _refuse_unreadable(target)
    subjects = subjects_of(settled)
    found, report = Found(), None
    n_planned = _n_planned(settled, _long(settled[0], long))
    try:
        for run in _runs(settled, found, long=_long(settled[0], long)):
            found.runs.append(run)
    finally:
        if found.runs:
            report = _report(settled, subjects, found, n_planned)
            give(report, reference_markdown(report), files, json=json, n_done=len(found.runs))
    assert report is not None
    faulty = {run.recipe for run in report.runs if run.fault is not None}
    note("reference", [(subject, subject.recipe not in faulty) for subject in subjects])
    fail_on(report)


def parse_recipes(text: str) -> list[str]:
    """Read "fp32,bf16". Raises: UsageError."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in RECIPES:
            raise UsageError(f"--recipe has {word!r}, but Hugging Face is compared with in fp32 and bf16.")
    return list(dict.fromkeys(words))


def _long(lane: Settled, wanted: bool | None) -> bool:
    return lane.devices.names[0].startswith("cuda") if wanted is None else wanted


def _refuse_unreadable(target: str) -> None:
    """Raises: UsageError where Hugging Face cannot have it."""
    from specmon.core.checks.hugging_face import check_readable
    from specmon.core.models.source import open_model
    from specmon.core.paths import cache_dir

    check_readable(open_model(target, cache_dir()))


def _n_planned(settled: Sequence[Settled], long: bool) -> int:
    from specmon.core.checks.reference import borders

    return 2 * len(settled) * len(borders(settled[0].context_length, long=long))


def _runs(settled: Sequence[Settled], found: Found, *, long: bool) -> Iterator[Run]:
    """Hugging Face's logits, then each recipe's own against them."""
    from specmon.core.checks.hugging_face import HuggingFace
    from specmon.core.checks.reference import Yardstick, compare, reference_ids
    from specmon.core.drafters.worker import claim_device
    from specmon.core.models.source import open_model
    from specmon.core.paths import cache_dir
    from specmon.tui.commands.bench_progress import BenchProgress

    device, first = settled[0].devices.names[0], settled[0].config
    claim_device(device, None)
    source = open_model(first.target, cache_dir())
    ids = reference_ids(source.tokenizer(), settled[0].context_length, long=long)
    found.n_tokens = len(ids)
    say(f"loading {first.target} with Hugging Face transformers")
    other = HuggingFace(source, device)
    say(f"running it on {len(ids)} tokens")
    yardstick = Yardstick(ids, partial(other.logits, ids), [lane.recipe for lane in settled])
    del other
    found.rounding = yardstick.rounding
    progress = BenchProgress()
    try:
        progress.begin("comparing", _n_planned(settled, long), "runs")
        for lane in settled:
            for run in compare(load_alone(lane), yardstick, long=long, graphs=lane.config.graphs):
                yield run
                progress.done()
    finally:
        progress.close()


def _report(
    settled: Sequence[Settled], subjects: Sequence[Subject], found: Found, n_planned: int
) -> ReferenceReport:
    from specmon.core.checks.reports import ReferenceReport

    devices = settled[0].devices.names[:1]
    return ReferenceReport(
        command=this_command(),
        provenance=made_on(settled[0], devices),
        target=settled[0].config.target,
        recipes=tuple(lane.recipe for lane in settled),
        backends=tuple(dict.fromkeys(subject.backend for subject in subjects)),
        devices=devices,
        n_planned=n_planned,
        passed=len(found.runs) == n_planned and all(run.fault is None for run in found.runs),
        n_tokens=found.n_tokens,
        rounding=found.rounding,
        runs=tuple(found.runs),
    )
