"""`specmon check quality`: what each recipe costs in text, against fp32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.core.models.recipe_names import RECIPES
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
from specmon.tui.commands.numbers import bounded
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare

if TYPE_CHECKING:
    from specmon.core.checks.quality import RecipeQuality
    from specmon.core.checks.reports import QualityReport
    from specmon.core.checks.subject import Subject
    from specmon.core.decoders.settle import Settled
    from specmon.core.engine.messages import LaneConfig

ALL_TOKENS = 4096  # more than the text has with any tokenizer that says whole words
_COMPARED = tuple(recipe for recipe in RECIPES if recipe != "fp32")
Recipes = Annotated[
    str, typer.Option("--recipe", metavar="NAME[,NAME]", help="auto: all that run here; or names: q4,bf16.")
]
Tokens = Annotated[
    int,
    typer.Option(
        metavar="N", help="At most so many tokens of the text; a pass is noted for the whole text alone."
    ),
]


def quality(
    target: options.Target = "smollm2",
    recipe: Recipes = "auto",
    backend: options.Backend = "auto",
    graphs: options.Graphs = "on",
    device: Device = "auto",
    tokens: Tokens = ALL_TOKENS,
    out: bench_files.Out = None,
    name: bench_files.Name = "",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Check perplexity and top-1 agreement of each recipe against fp32 on a text that ships; exit code 1 beyond a bound.

    Perplexity ÷ fp32's at most 1.01 for bf16, 1.02 for q4, 1.03 for fp8; fp32's best token at 0.95 of the positions for
    bf16, 0.93 for q4, 0.85 for fp8 and 0.90 where its head stays bf16.
    """
    from specmon.core.checks.markdown import quality_markdown

    check_one_device(device)
    bounded(tokens, "--tokens", 2)
    words = parse_recipes(recipe)
    configs = [options.target_alone(target, word, backend, graphs, device) for word in words or _COMPARED]
    files = bench_files.report_files(out, name, force, benchmark="check-quality")
    prepare(configs)
    [yardstick] = settle_lanes([options.target_alone(target, "fp32", "auto", graphs, device)])
    settled = settle_lanes(configs) if words else _that_run_here(configs)
    bench_files.make_folder(files)
    subjects = subjects_of(settled)
    ids = _ids(yardstick, tokens)
    found: list[RecipeQuality] = []
    report: QualityReport | None = None
    try:
        for one in _found(yardstick, settled, ids):
            found.append(one)
    finally:
        if found:
            report = _report(settled, subjects, found, len(ids))
            give(report, quality_markdown(report), files, json=json, n_done=len(found))
    assert report is not None
    if tokens >= ALL_TOKENS:
        note("quality", [(s, q.fault is None) for s, q in zip(subjects, found, strict=True)])
    fail_on(report)


def parse_recipes(text: str) -> list[str]:
    """Read "bf16,q4", [] of auto. Raises: UsageError."""
    if text.strip() == "auto":
        return []
    words = list(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word == "fp32":
            raise UsageError("--recipe has fp32, which is what the others are compared with.")
        if word not in RECIPES:
            raise UsageError(f"--recipe has {word!r}, but it takes auto, {', '.join(_COMPARED)}.")
    return words


def _that_run_here(configs: Sequence[LaneConfig]) -> list[Settled]:
    """Of `configs` those whose recipe the device, the weights and the backend have. Raises: UsageError for none."""
    found = []
    for config in configs:
        try:
            found += settle_lanes([config])
        except UsageError as refused:
            say(f"{config.recipe} is left out: {refused.message}")
    if not found:
        raise UsageError("No recipe but fp32 runs here.")
    return found


def _ids(lane: Settled, tokens: int) -> list[int]:
    from specmon.core.checks.text import text_ids
    from specmon.core.models.source import open_model
    from specmon.core.paths import cache_dir

    return text_ids(open_model(lane.config.target, cache_dir()).tokenizer(), min(tokens, lane.context_length))


def _found(yardstick: Settled, settled: Sequence[Settled], ids: Sequence[int]) -> Iterator[RecipeQuality]:
    """Each recipe's quality; a recipe is loaded when the one before is gone."""
    from specmon.core.checks.quality import quality as hold
    from specmon.core.checks.quality import read
    from specmon.core.drafters.worker import claim_device
    from specmon.tui.commands.bench_progress import BenchProgress

    claim_device(yardstick.devices.names[0], None)
    progress = BenchProgress()
    try:
        progress.begin("reading", 1 + len(settled), "recipes")
        exact = read(load_alone(yardstick), ids, graphs=yardstick.config.graphs)
        progress.done()
        for lane in settled:
            loaded = load_alone(lane)
            yield hold(loaded, read(loaded, ids, graphs=lane.config.graphs), exact)
            progress.done()
    finally:
        progress.close()


def _report(
    settled: Sequence[Settled], subjects: Sequence[Subject], found: Sequence[RecipeQuality], n_tokens: int
) -> QualityReport:
    from specmon.core.checks.reports import QualityReport

    devices = settled[0].devices.names[:1]
    return QualityReport(
        command=this_command(),
        provenance=made_on(settled[0], devices),
        target=settled[0].config.target,
        recipes=tuple(lane.recipe for lane in settled),
        backends=tuple(dict.fromkeys(subject.backend for subject in subjects)),
        devices=devices,
        n_planned=len(settled),
        passed=len(found) == len(settled) and all(one.fault is None for one in found),
        n_tokens=n_tokens,
        found=tuple(found),
    )
