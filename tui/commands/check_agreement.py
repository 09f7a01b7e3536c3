"""`specmon check agreement`: SD and SSD against AR on a user's own pair, every pattern of acceptance forced."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from specmon.tui.commands import bench_files, options
from specmon.tui.commands.bench_lanes import settle_lanes
from specmon.tui.commands.check_run import fail_on, give, made_on, note, this_command, this_machine
from specmon.tui.commands.option_groups import LaneOptions, grouped
from specmon.tui.commands.output import say
from specmon.tui.commands.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specmon.core.checks.agreement import PatternResult
    from specmon.core.checks.patterns import Lane
    from specmon.core.checks.reports import AgreementReport
    from specmon.core.decoders.settle import Settled
    from specmon.core.engine.messages import LaneConfig


@grouped
def agreement(
    lane: LaneOptions,
    out: bench_files.Out = None,
    name: bench_files.Name = "",
    force: options.Force = False,
    json: bench_files.Json = False,
) -> None:
    """Check that SD and SSD give AR's tokens; exit code 1 at a difference, naming round and position.

    A scripted drafter forces every acceptance 0 … K, hits and misses, EOS inside a draft, stop strings, sampling, warm
    second turns, other K and fan-outs, with the draft model at work inside; then the drafter itself decodes. A line a
    pattern, 2 to 3 minutes for the embedded pair on two CPU cores. A block drafter, and trees, are put through SD alone.
    """
    from msgspec.structs import replace

    from specmon.core.checks.identify import subject_of
    from specmon.core.checks.markdown import agreement_markdown
    from specmon.core.checks.patterns import long_prompt, suite
    from specmon.core.drafters.registry import drafts_blocks
    from specmon.core.models.source import open_model
    from specmon.core.paths import cache_dir

    config = lane.config("sd" if lane.draft_nodes else "ssd")
    files = bench_files.report_files(out, name, force, benchmark="check-agreement")
    prepare([config])
    if drafts_blocks(config.draft, config.target, cache_dir()):
        config = replace(config, decoder="sd")
    [settled] = settle_lanes([config])
    bench_files.make_folder(files)
    subject = subject_of(settled, cache_dir())
    config = replace(config, devices=",".join(settled.devices.names))
    tokenizer = open_model(config.target, cache_dir()).tokenizer()
    lanes = suite(config, long_prompt(tokenizer, settled.context_length))
    results: list[PatternResult] = []
    report: AgreementReport | None = None
    try:
        for result in _results(config, lanes):
            results.append(result)
    finally:
        if results:
            report = _report(config, settled, subject.backend, lanes, results)
            give(report, agreement_markdown(report), files, json=json, n_done=len(results))
    assert report is not None
    note("agreement", [(subject, report.passed)])
    fail_on(report)


def _results(config: LaneConfig, lanes: list[Lane]) -> Iterator[PatternResult]:
    from specmon.core.checks.agreement import Agreement
    from specmon.core.drafters.worker import claim_device
    from specmon.core.models.pool import ModelPool
    from specmon.tui.commands.bench_progress import BenchProgress

    cores = this_machine().core_of
    target = config.devices.split(",")[0]
    claim_device(target, cores.get(target))
    zero = time.monotonic_ns()
    say(f"loading {config.target}")
    progress = BenchProgress()
    suite = Agreement(config, pool=ModelPool(), clock=lambda: time.monotonic_ns() - zero, cores=cores)
    try:
        progress.begin("checking", sum(len(lane.patterns) for lane in lanes), "patterns")
        for result in suite.run(lanes):
            yield result
            progress.done()
    finally:
        progress.close()


def _report(
    config: LaneConfig, settled: Settled, backend: str, lanes: list[Lane], results: list[PatternResult]
) -> AgreementReport:
    from specmon.core.checks.reports import AgreementReport

    planned = sum(len(lane.patterns) for lane in lanes)
    return AgreementReport(
        command=this_command(),
        provenance=made_on(settled, settled.devices.names),
        target=f"{config.target} with {config.draft}",
        recipes=(settled.recipe,),
        backends=(backend,),
        devices=settled.devices.names,
        n_planned=planned,
        passed=len(results) == planned and all(result.fault is None for result in results),
        config=config,
        patterns=tuple(results),
    )
