"""`specmon run`: the monitor, or one request as text or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import options
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


@grouped
def run(
    ctx: typer.Context,
    prompt: PromptOptions,
    decoder: options.DecoderName = "ssd",
    *,
    lane: LaneOptions,
    sampling: SamplingOptions,
    output: OutputOptions,
    looks: LookOptions,
    once: options.Once = False,
    size: options.Size = "",
) -> None:
    """Open the monitor; with a prompt and no terminal, or --plain or --json, decode one request."""
    config = lane.config(decoder)
    output.check()
    headless = output.plain or output.json
    if once and headless:
        raise UsageError("--once, --plain and --json exclude each other.")
    screen = options.on_terminal() and not (headless or once)
    text = prompt.read()
    if text is None and not screen:
        raise UsageError("There is no prompt.", "Give it with -p, --prompt-file or on stdin.")
    request = sampling.request(text)
    cells = options.frame_size(size, once=once)
    appearance = look(looks.theme, looks.ascii, looks.no_mouse, cells) if screen or once else None
    if appearance is None:
        say_config_notes()
    prepare([config])
    record, force, debug = output.record, output.force, bool(ctx.obj)
    if appearance is not None:
        open_monitor(appearance, config, request, record=record, force=force, debug=debug)
    else:
        decode(config, request, record=record, force=force, json=output.json, debug=debug)


def decode(
    config: LaneConfig, request: Request, *, record: Path | None, force: bool, json: bool, debug: bool
) -> None:
    """Decode one request: text streams to stdout and a summary goes to stderr, or one JSON object to stdout.

    An interrupted request is summed up as far as it came.
    """
    from specmon.core.engine.client import EngineClient
    from specmon.core.engine.messages import Generate, Load
    from specmon.tui.commands.headless import Headless
    from specmon.tui.commands.report import Report

    report = Report(None if json else TextStream(sys.stdout))
    engine = Headless(EngineClient.start(debug=debug), report.feed, report.say)
    try:
        with engine:
            engine.do(Load(config=config))
            if record is not None:
                engine.record(record, force)
            engine.do(Generate(request=request))
    finally:
        report.finish(engine.recording, incomplete=engine.incomplete)
    if error := report.error():
        raise SpecmonError(error)
    engine.check_recording()
