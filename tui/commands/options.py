"""Options that several sub-commands share, checked here, and how they become what the engine is told."""

from __future__ import annotations

import math
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from specmon.core.decoders.fan_out import DEFAULT_BUDGET
from specmon.core.errors import UsageError
from specmon.tui.commands.numbers import bounded, whole_number

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request

Target = Annotated[
    str, typer.Option(metavar="MODEL", help="A folder, a hub id, a .gguf, or smollm2 (the embedded pair).")
]
Draft = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Like --target; or auto, eagle3, ngram, suffix, hybrid[:MODEL], scripted:ALPHA[:coverage=C1/C2/C4][@MODEL].",
    ),
]
DecoderName = Annotated[str, typer.Option("--decoder", metavar="ar|sd|ssd", help="How to decode.")]
DraftLen = Annotated[int, typer.Option(metavar="K", help="Tokens proposed in a round.")]
DraftNodes = Annotated[
    int, typer.Option(metavar="N", help="SD: draft a tree of N nodes, K deep, up to 15; 0: a chain.")
]
FanOut = Annotated[
    str,
    typer.Option(
        metavar="F[,F…]|auto[:N]",
        help="SSD: branches per accepted_len, one number or K+1; auto shares out N (16) where they have hit. At most 256.",
    ),
]
Recipe = Annotated[str, typer.Option(metavar="NAME", help="The numeric contract: auto, q4, fp32, bf16, …")]
Backend = Annotated[
    str, typer.Option(metavar="NAME", help="Kernels: auto, reference or triton (CUDA: bf16, fp8).")
]
Graphs = Annotated[str, typer.Option(metavar="on|off", help="CUDA graphs, where the backend captures them.")]
Devices = Annotated[
    str,
    typer.Option(
        metavar="D[,D…]",
        help="auto, or the target's device and the draft's: cuda:0,cuda:1. Of more, all but the last share the target.",
    ),
]
MaxNewTokens = Annotated[int, typer.Option(metavar="N", help="Stop after so many tokens.")]
Temperature = Annotated[float, typer.Option(metavar="T", help="0 is greedy.")]
TopP = Annotated[float, typer.Option(metavar="P", help="Sample from the top of this much probability.")]
TopK = Annotated[int, typer.Option(metavar="N", help="Sample from so many tokens; 0 from all.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the sampling.")]
Stop = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Stop before this text; may be repeated.")
]
Raw = Annotated[bool, typer.Option("--raw", help="Give the prompt to the model without its chat template.")]
Prompt = Annotated[str | None, typer.Option("--prompt", "-p", metavar="TEXT", help="The user's message.")]
PromptFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read the message from a file; - is stdin.")
]
Record = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keep a recording: a .session file, or a folder to name it in."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Plain = Annotated[bool, typer.Option("--plain", help="No monitor: text to stdout, a summary to stderr.")]
Json = Annotated[bool, typer.Option("--json", help="No monitor: one JSON object to stdout.")]
Theme = Annotated[str | None, typer.Option(metavar="NAME", help="Colours of the monitor.")]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only.")]
NoMouse = Annotated[bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")]

Once = Annotated[
    bool,
    typer.Option("--once", help="Print the monitor's last screen as text, once there is no more to come."),
]
Size = Annotated[
    str,
    typer.Option(metavar="WxH", help="With --once: columns and rows, like 160x48; the terminal's if empty."),
]


def lane_config(
    *,
    decoder: str,
    target: str,
    draft: str,
    recipe: str,
    devices: str,
    draft_len: int,
    fan_out: str,
    backend: str = "auto",
    graphs: str = "on",
    draft_nodes: int = 0,
) -> LaneConfig:
    """The checked options as a lane. Raises: UsageError."""
    from specmon.core.decoders.check import check_config
    from specmon.core.engine.messages import LaneConfig
    from specmon.core.events import Decoder

    if decoder not in get_args(Decoder):
        raise UsageError(f"There is no decoder {decoder!r}.", "Use ar, sd or ssd.")
    if bounded(draft_len, "--draft-len") < 1:
        raise UsageError(
            f"--draft-len is {draft_len}, but a round drafts at least 1 token.", "The decoder ar drafts none."
        )
    if graphs not in ("on", "off"):
        raise UsageError(f"--graphs is {graphs!r}, but it takes on or off.")
    for name, value in (
        ("--target", target),
        ("--draft", draft),
        ("--recipe", recipe),
        ("--devices", devices),
    ):
        if not value.strip():
            raise UsageError(f"{name} is empty.")
    widths, budget = parse_fan_out(fan_out, draft_len)
    config = LaneConfig(
        decoder=cast("Decoder", decoder),
        target=target,
        draft=draft,
        recipe=recipe,
        devices=devices,
        backend=backend,
        draft_len=draft_len,
        fan_out=widths,
        branch_budget=budget,
        graphs=graphs == "on",
        draft_nodes=bounded(draft_nodes, "--draft-nodes", 0),
    )
    check_config(config)
    return config


def target_alone(target: str, recipe: str, backend: str, graphs: str, device: str) -> LaneConfig:
    """A lane that drafts nothing. Raises: UsageError."""
    return lane_config(
        decoder="ar",
        target=target,
        draft="auto",
        recipe=recipe,
        backend=backend,
        devices=device,
        graphs=graphs,
        draft_len=1,
        fan_out="1",
    )


def request(
    prompt: str | None,
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
    stop: list[str] | None = None,
    raw: bool = False,
) -> Request:
    """The checked options as a request; without a prompt it has no message. Raises: UsageError."""
    from specmon.core.engine.messages import Request
    from specmon.core.events import Sampling

    if prompt is not None and not prompt.strip():
        raise UsageError("The prompt is empty.", "Give some text with -p, --prompt-file or on stdin.")
    bounded(max_new_tokens, "--max-new-tokens", 1)
    if not (math.isfinite(temperature) and temperature >= 0):
        raise UsageError(f"--temperature is {temperature}, but it must be 0 or more.")
    if not 0 < top_p <= 1:
        raise UsageError(f"--top-p is {top_p}, but it must be above 0 and at most 1.")
    bounded(top_k, "--top-k", 0)
    bounded(seed, "--seed")
    if any(not text for text in stop or ()):
        raise UsageError("--stop is empty, which would stop at once.")
    return Request(
        messages=(("user", prompt),) if prompt is not None else (),
        max_new_tokens=max_new_tokens,
        sampling=Sampling(temperature=temperature, top_p=top_p, top_k=top_k),
        seed=seed,
        stop_strings=tuple(stop or ()),
        raw=raw,
    )


def parse_fan_out(text: str, draft_len: int) -> tuple[tuple[int, ...], int | None]:
    """Read 1 or 5,4,3,2,2, branches for every accepted_len 0..draft_len, or auto or auto:24, a budget for all.

    Returns: the branches, and the budget where it is auto. Raises: UsageError.
    """
    word, colon, number = text.strip().partition(":")
    if word == "auto":
        budget = whole_number(number) if colon else DEFAULT_BUDGET
        if not budget:
            raise UsageError(f"--fan-out is {text!r}, but a budget is 1 branch or more, like auto:16.")
        return (1,), budget
    fan_out = tuple(whole_number(part) or 0 for part in text.split(","))
    if min(fan_out) < 1:
        raise UsageError(
            f"--fan-out is {text!r}, but it takes whole numbers of 1 or more, like 2 or 5,4,3,2,2, or auto."
        )
    if len(fan_out) not in {1, draft_len + 1}:
        raise UsageError(
            f"--fan-out has {len(fan_out)} numbers, but --draft-len {draft_len} takes 1 or {draft_len + 1}."
        )
    return fan_out, None


def parse_lane(word: str, draft_len: int, option: str) -> tuple[str, int]:
    """Read "sd:6", or "sd" with `draft_len`, as a decoder and its draft_len. Raises: UsageError naming `option`."""
    decoder, colon, own = word.strip().partition(":")
    number = whole_number(own) if colon else draft_len
    if number is None:
        raise UsageError(
            f"{option} has {word!r}, but after the colon it takes a number of tokens, like sd:6."
        )
    return decoder, number


def read_prompt(prompt: str | None, prompt_file: Path | None, stdin_is_terminal: bool) -> str | None:
    """The prompt from wherever it was given, None if nowhere; a file's final newline is not part of it.

    Raises: UsageError.
    """
    if prompt is not None and prompt_file is not None:
        raise UsageError("Both --prompt and --prompt-file are given.", "Use one of them.")
    if prompt is not None:
        return prompt
    if prompt_file is None and stdin_is_terminal:
        return None
    try:
        if prompt_file is None or str(prompt_file) == "-":
            content = sys.stdin.buffer.read()
        else:
            content = prompt_file.read_bytes()
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"The prompt in {prompt_file or 'stdin'} is not UTF-8 text.") from error
    except OSError as error:
        raise UsageError(f"The prompt cannot be read from {prompt_file}: {error.strerror}.") from error
    return text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")


def check_record(record: Path | None, force: bool) -> None:
    """Refuse before anything is loaded what could not be written later. Raises: UsageError."""
    if record is not None:
        from specmon.core.session.target import check_creatable

        check_creatable(record, force=force)


def frame_size(text: str, *, once: bool) -> tuple[int, int] | None:
    """--size as columns and rows with --once, else None. Raises: UsageError."""
    if text and not once:
        raise UsageError("--size goes with --once.")
    return parse_size(text) if once else None


def parse_size(text: str) -> tuple[int, int]:
    """Read 160x48; where empty, the terminal's size, or 160x48 where there is none.

    Raises: UsageError, also for a size too small for the monitor.
    """
    if not text:
        terminal = shutil.get_terminal_size((160, 48))
        return _large_enough(terminal.columns, terminal.lines)
    left, _, right = text.lower().partition("x")
    columns, rows = whole_number(left) or 0, whole_number(right) or 0
    if not (1 <= columns <= 1000 and 1 <= rows <= 1000):
        raise UsageError(f"--size is {text!r}, but it takes columns and rows up to 1000, like 160x48.")
    return _large_enough(columns, rows)


def _large_enough(columns: int, rows: int) -> tuple[int, int]:
    from specmon.tui.screens.arrangement import MIN_HEIGHT, MIN_WIDTH

    if columns < MIN_WIDTH or rows < MIN_HEIGHT:
        raise UsageError(
            f"The monitor needs {MIN_WIDTH}x{MIN_HEIGHT}, but {columns}x{rows} is what --once would fill.",
            f"Give --size {MIN_WIDTH}x{MIN_HEIGHT} or more.",
        )
    return columns, rows


def on_terminal() -> bool:
    """Whether the monitor can be shown: it draws on stderr and reads keys from stdin, or a browser does both."""
    return in_browser() or all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def in_browser() -> bool:
    """Whether `specmon serve`, or `textual serve`, runs this and speaks for a browser on stdin and stdout."""
    return "TEXTUAL_DRIVER" in os.environ


def keys_on_stdin() -> bool:
    """Whether stdin brings keys, not a prompt."""
    return in_browser() or sys.stdin.isatty()
