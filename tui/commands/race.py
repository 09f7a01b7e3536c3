"""`specmon race`: one prompt on several lanes, side by side on fair clocks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import lane_words, options
from specmon.tui.commands.option_groups import (
    LaneOptions,
    LookOptions,
    OutputOptions,
    PromptOptions,
    SamplingOptions,
    grouped,
)
from specmon.tui.commands.output import TextStream
from specmon.tui.commands.prepare import prepare
from specmon.tui.commands.screen import look, open_monitor, say_config_notes

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.core.metrics.summary import RaceSummary, Summary

Lanes = Annotated[
    str,
    typer.Option(
        metavar="LANE,LANE…",
        help="Two to four of ar, sd, ssd; sd:6 drafts 6 tokens a round. Default: ar,sd,ssd.",
    ),
]
MOST = 4


@grouped
def race(
    ctx: typer.Context,
    prompt: PromptOptions,
    lanes: Lanes = "",
    lane: lane_words.Lanes = None,
    *,
    shared: LaneOptions,
    sampling: SamplingOptions,
    output: OutputOptions,
    looks: LookOptions,
) -> None:
    """Race AR, SD and SSD, or any lanes, on one prompt; exit code 1 if greedy ones of one recipe give different tokens."""
    configs = lanes_of(lanes, lane, shared)
    output.check()
    request = sampling.request(prompt.read())
    if not request.messages:
        raise UsageError("There is no prompt to race on.", "Give it with -p, --prompt-file or on stdin.")
    screen = options.on_terminal() and not (output.plain or output.json)
    appearance = look(looks.theme, looks.ascii, looks.no_mouse) if screen else None
    if appearance is None:
        say_config_notes()
    prepare(configs)
    record, force, debug = output.record, output.force, bool(ctx.obj)
    if appearance is not None:
        open_monitor(
            appearance, configs[0], request, race_lanes=configs, record=record, force=force, debug=debug
        )
    else:
        decode(configs, request, record=record, force=force, json=output.json, debug=debug)


def lanes_of(lanes: str, words: Sequence[str] | None, shared: LaneOptions) -> list[LaneConfig]:
    """The lanes of "ar,sd:6,ssd", or those in `words`. Raises: UsageError."""
    if not lanes:
        return lane_words.lane_configs(words, shared, most=MOST)
    if words:
        raise UsageError("Both --lane and --lanes are given.", "Use one of them.")
    named = [options.parse_lane(word, shared.draft_len, "--lanes") for word in lanes.split(",")]
    if not 2 <= len(named) <= MOST:
        raise UsageError(f"--lanes names {len(named)}, but a race has two to four lanes.")
    return [shared.config(decoder, draft_len) for decoder, draft_len in named]


def decode(
    configs: Sequence[LaneConfig],
    request: Request,
    *,
    record: Path | None,
    force: bool,
    json: bool,
    debug: bool,
) -> None:
    """Race without a screen: the first lane's text and the standings, or one JSON object."""
    from specmon.core.engine.client import EngineClient
    from specmon.core.engine.messages import Load, Race
    from specmon.tui.commands.headless import Headless
    from specmon.tui.commands.report import Report

    report = Report(None if json else TextStream(sys.stdout))
    engine = Headless(EngineClient.start(debug=debug), report.feed, report.say)
    try:
        with engine:
            for lane, config in enumerate(configs):
                engine.do(Load(lane=lane, config=config))
            if record is not None:
                engine.record(record, force)
            engine.do(Race(request=request))
    finally:
        figures = report.finish(engine.recording, incomplete=engine.incomplete)
    check_result(figures)
    engine.check_recording()


def check_result(figures: Summary | RaceSummary | None) -> None:
    """Raises: SpecmonError where lanes that must agree do not, or one failed."""
    from specmon.core.metrics.summary import RaceSummary

    if not isinstance(figures, RaceSummary):
        raise SpecmonError("The race did not start on all lanes.")
    if figures.equal is False:
        raise SpecmonError(f"The lanes' tokens differ from token {figures.first_difference} on.")
    failed = ["ABCD"[n] for n, lane in enumerate(figures.lanes) if lane.stop_reason in {None, "error"}]
    if failed:
        raise SpecmonError(f"Lane {' and '.join(failed)} did not finish.")
