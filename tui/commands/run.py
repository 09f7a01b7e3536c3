"""`specmon run`: the monitor, or one request as text or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import options
from specmon.tui.commands.output import TextStream
from specmon.tui.commands.prepare import prepare
from specmon.tui.commands.screen import look, open_monitor

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request


def run(
    ctx: typer.Context,
    prompt: options.Prompt = None,
    prompt_file: options.PromptFile = None,
    decoder: options.DecoderName = "ssd",
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
    once: options.Once = False,
    size: options.Size = "",
) -> None:
    """Open the monitor; with a prompt and no terminal, or --plain or --json, decode one request."""
    config = options.lane_config(
        decoder=decoder,
        target=target,
        draft=draft,
        recipe=recipe,
        backend=backend,
        graphs=graphs,
        devices=devices,
        draft_len=draft_len,
        fan_out=fan_out,
    )
    options.check_record(record, force)
    if once and (plain or json):
        raise UsageError("--once, --plain and --json exclude each other.")
    screen = options.on_terminal() and not (plain or json or once)
    text = options.read_prompt(prompt, prompt_file, stdin_is_terminal=options.keys_on_stdin())
    if text is None and not screen:
        raise UsageError("There is no prompt.", "Give it with -p, --prompt-file or on stdin.")
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
    cells = options.parse_size(size) if once else None
    appearance = look(theme, ascii, no_mouse, cells) if screen or once else None
    prepare([config])
    debug = bool(ctx.obj)
    if appearance is not None:
        open_monitor(appearance, config, wanted, record=record, force=force, debug=debug)
    else:
        decode(config, wanted, record=record, force=force, json=json, debug=debug)


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
