"""`specmon race`: one prompt on several lanes, side by side on fair clocks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import options
from specmon.tui.commands.output import TextStream
from specmon.tui.commands.prepare import prepare
from specmon.tui.commands.screen import look, open_monitor

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.core.metrics.summary import RaceSummary, Summary

Lanes = Annotated[
    str,
    typer.Option(metavar="LANE,LANE…", help="Two to four of ar, sd, ssd; sd:6 drafts 6 tokens a round."),
]


def race(
    ctx: typer.Context,
    prompt: options.Prompt = None,
    prompt_file: options.PromptFile = None,
    lanes: Lanes = "ar,sd,ssd",
    target: options.Target = "smollm2",
    draft: options.Draft = "auto",
    draft_len: options.DraftLen = 4,
    fan_out: options.FanOut = "1",
    recipe: options.Recipe = "auto",
    backend: options.Backend = "auto",
    graphs: options.Graphs = "on",
    devices: options.Devices = "auto",
    max_new_tokens: options.MaxNewTokens = 256,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    seed: options.Seed = 0,
    stop: options.Stop = None,
    raw: options.Raw = False,
    record: options.Record = None,
    force: options.Force = False,
    plain: options.Plain = False,
    json: options.Json = False,
    theme: options.Theme = None,
    ascii: options.Ascii = False,
    no_mouse: options.NoMouse = False,
) -> None:
    """Race AR, SD and SSD on one prompt; exit code 1 if greedy lanes of one recipe give different tokens."""
    configs = [
        options.lane_config(
            decoder=decoder,
            target=target,
            draft=draft,
            recipe=recipe,
            backend=backend,
            graphs=graphs,
            devices=devices,
            draft_len=lane_draft_len,
            fan_out=fan_out,
        )
        for decoder, lane_draft_len in parse_lanes(lanes, draft_len)
    ]
    options.check_record(record, force)
    text = options.read_prompt(prompt, prompt_file, stdin_is_terminal=options.keys_on_stdin())
    wanted = options.request(
        text,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        stop=stop,
        raw=raw,
    )
    if not wanted.messages:
        raise UsageError("There is no prompt to race on.", "Give it with -p, --prompt-file or on stdin.")
    screen = options.on_terminal() and not (plain or json)
    appearance = look(theme, ascii, no_mouse) if screen else None
    prepare(configs)
    debug = bool(ctx.obj)
    if appearance is not None:
        open_monitor(
            appearance, configs[0], wanted, race_lanes=configs, record=record, force=force, debug=debug
        )
    else:
        decode(configs, wanted, record=record, force=force, json=json, debug=debug)


def parse_lanes(text: str, draft_len: int) -> list[tuple[str, int]]:
    """Read "ar,sd:6,ssd" as decoders with their draft_len. Raises: UsageError."""
    lanes = [options.parse_lane(word, draft_len, "--lanes") for word in text.split(",")]
    if not 2 <= len(lanes) <= 4:
        raise UsageError(f"--lanes names {len(lanes)}, but a race has two to four lanes.")
    return lanes


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
