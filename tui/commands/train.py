"""`specmon train`: small drafters for a target, trained on text it writes itself."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import options
from specmon.tui.commands.bench_progress import BenchProgress
from specmon.tui.commands.numbers import bounded, whole_number
from specmon.tui.commands.output import say, write_line
from specmon.tui.commands.prepare import EMBEDDED, RANDOM, require_engine

if TYPE_CHECKING:
    from specmon.core.training.config import TextSettings, TrainSettings

app = typer.Typer(help="Train a drafter for a target.", no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="The run's folder: what was begun there goes on.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Text the target wrote, shared by runs. Default: in --out."),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Have these answered, one a line (.jsonl: JSON strings); else the target asks itself.",
    ),
]
Tokens = Annotated[int, typer.Option(metavar="N", help="Tokens of text the target writes.")]
RowTokens = Annotated[
    int, typer.Option(metavar="N", help="Tokens of a row; rows of long questions have three times as many.")
]
Steps = Annotated[int, typer.Option(metavar="N", help="Steps of training.")]
BatchTokens = Annotated[int, typer.Option(metavar="N", help="Tokens of a step, over all devices.")]
LearningRate = Annotated[float, typer.Option(metavar="R", help="Its highest value.")]
AcceptWeight = Annotated[
    float,
    typer.Option(metavar="W", help="Weight of the chance of rejection beside the cross-entropy."),
]
Devices = Annotated[
    str, typer.Option(metavar="D[,D…]", help="auto (every GPU, else the CPU), or cuda:0,cuda:1 or cpu.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the settings that --out was begun with.")]


@app.command("draft", short_help="Train a draft model.")
def draft(
    out: Out,
    target: options.Target = "smollm2",
    data: Data = None,
    prompts: Prompts = None,
    tokens: Tokens = 50_000_000,
    row_tokens: RowTokens = 512,
    steps: Steps = 3000,
    batch_tokens: BatchTokens = 49_152,
    learning_rate: LearningRate = 2e-3,
    accept_weight: AcceptWeight = 0.0,
    hidden: Annotated[int, typer.Option(metavar="N", help="Its hidden size, a multiple of 64.")] = 256,
    layers: Annotated[int, typer.Option(metavar="N", help="Its layers.")] = 4,
    devices: Devices = "auto",
    seed: options.Seed = 0,
    resume: Resume = False,
) -> None:
    """Train a draft model: a small Llama of the target's vocabulary that learns the target's own distribution.

    The target writes the text itself. Ctrl+c saves; the same command goes on.
    """
    require_engine()
    from specmon.core.training.config import TrainSettings

    if bounded(hidden, "--hidden", 1) % 64:
        raise UsageError(f"--hidden is {hidden}, but it must be a multiple of 64.")
    settings = TrainSettings(
        kind="draft",
        text=_text(target, row_tokens, prompts, seed),
        tokens=bounded(tokens, "--tokens", 1),
        steps=bounded(steps, "--steps", 1),
        batch_tokens=bounded(batch_tokens, "--batch-tokens", 1),
        learning_rate=_positive(learning_rate, "--learning-rate"),
        accept_weight=_not_negative(accept_weight, "--accept-weight"),
        seed=seed,
        hidden=hidden,
        layers=bounded(layers, "--layers", 1),
    )
    _train(settings, _Run(out, data, devices, resume))


@app.command("eagle3", short_help="Train an EAGLE-3 head.")
def eagle3(
    out: Out,
    target: options.Target = "smollm2",
    data: Data = None,
    prompts: Prompts = None,
    tokens: Tokens = 50_000_000,
    row_tokens: RowTokens = 512,
    steps: Steps = 3000,
    batch_tokens: BatchTokens = 49_152,
    learning_rate: LearningRate = 1e-3,
    accept_weight: AcceptWeight = 0.0,
    draft_vocab: Annotated[
        int, typer.Option(metavar="N", help="Its vocabulary: so many of the commonest tokens.")
    ] = 8192,
    unroll: Annotated[int, typer.Option(metavar="N", help="Steps of training-time test.")] = 4,
    taps: Annotated[
        str,
        typer.Option(
            metavar="L,L,L", help="Target layers whose input it reads. Default: of L layers 2, L/2 and L-3."
        ),
    ] = "",
    devices: Devices = "auto",
    seed: options.Seed = 0,
    resume: Resume = False,
) -> None:
    """Train an EAGLE-3 head, with training-time test: it learns to draft from its own features too.

    The target writes the text itself. Ctrl+c saves; the same command goes on.
    """
    require_engine()
    from specmon.core.training.config import TrainSettings

    settings = TrainSettings(
        kind="eagle3",
        text=_text(target, row_tokens, prompts, seed),
        tokens=bounded(tokens, "--tokens", 1),
        steps=bounded(steps, "--steps", 1),
        batch_tokens=bounded(batch_tokens, "--batch-tokens", 1),
        learning_rate=_positive(learning_rate, "--learning-rate"),
        accept_weight=_not_negative(accept_weight, "--accept-weight"),
        seed=seed,
        draft_vocab=bounded(draft_vocab, "--draft-vocab", 1),
        unroll=bounded(unroll, "--unroll", 1),
        taps=_layers(taps),
    )
    _train(settings, _Run(out, data, devices, resume))


@dataclass(frozen=True)
class _Run:
    """Where and on what a run goes on."""

    out: Path
    data: Path | None
    devices: str
    resume: bool

    def command(self, kind: str) -> str:
        """The command line that goes on with it."""
        words = ["specmon", "train", kind, "--out", str(self.out), "--resume"]
        words += ["--data", str(self.data)] if self.data else []
        words += ["--devices", self.devices] if self.devices != "auto" else []
        return shlex.join(words)


def _train(given: TrainSettings, run: _Run) -> None:
    from specmon.core.paths import cache_dir
    from specmon.core.training.config import RUN, TrainSettings, read_settings
    from specmon.core.training.held_out import in_words
    from specmon.core.training.run import Place, train

    settings = given
    if run.resume:
        if not (run.out / RUN).exists():
            raise UsageError(
                f"--out is {run.out}, where no run was begun.", "Leave out --resume to begin one."
            )
        settings = read_settings(run.out / RUN, TrainSettings)
        if settings.kind != given.kind:
            raise UsageError(f"{run.out} holds a run of: specmon train {settings.kind}.")
    if settings.text.target == EMBEDDED or settings.text.target.startswith(RANDOM):
        from specmon.tui.commands.fetching import ensure_embedded_model

        ensure_embedded_model()
    place = Place(out=run.out, data=run.data or run.out / "data", cache_dir=cache_dir())
    progress = BenchProgress()
    try:
        results = train(settings, place, _devices(run.devices), progress)
    except KeyboardInterrupt:
        progress.say(f"Stopped. Go on with: {run.command(settings.kind)}")
        raise
    finally:
        progress.close()
    for result in results:
        write_line(f"{result.folder}  {result.n_bytes / 1e6:.1f} MB  held out: {in_words(result.held_out)}")
    draft = shlex.quote(str(results[-1].folder))
    target = shlex.quote(settings.text.target)
    say(
        f"Decode with it: specmon bench draft-len --target {target} --draft {draft} --draft-len 4 --sweep-only"
    )


def _text(target: str, row_tokens: int, prompts: Path | None, seed: int) -> TextSettings:
    from specmon.core.training.config import TextSettings

    if not target.strip():
        raise UsageError("--target is empty.")
    if not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}, but it must be 0 to {2**31 - 1}.")
    return TextSettings(
        target=target,
        row_tokens=bounded(row_tokens, "--row-tokens", 32),
        prompts=str(prompts) if prompts else "",
        seed=seed,
    )


def _devices(text: str) -> tuple[str, ...]:
    """The devices `--devices` names. Raises: UsageError for one that is not here."""
    import torch

    n_gpus = torch.cuda.device_count()
    if text == "auto":
        return tuple(f"cuda:{i}" for i in range(n_gpus)) or ("cpu",)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        kind, _, number = name.partition(":")
        if kind not in ("cpu", "cuda") or (number and whole_number(number) is None):
            raise UsageError(f"--devices is {text!r}, but it takes auto, cpu, or cuda:0,cuda:1.")
        if kind == "cuda" and (whole_number(number or "0") or 0) >= n_gpus:
            raise UsageError(f"There is no {name} here.", f"This machine has {n_gpus} CUDA devices.")
    if len({name.partition(":")[0] for name in names}) > 1:
        raise UsageError(f"--devices is {text!r}, but a run is on GPUs or on a CPU.")
    return names


def _layers(text: str) -> tuple[int, ...]:
    layers = [whole_number(part) for part in text.split(",")] if text.strip() else []
    if None in layers:
        raise UsageError(f"--taps is {text!r}, but it takes layer numbers, like 3,15,27.")
    return tuple(layer for layer in layers if layer is not None)


def _positive(number: float, option: str) -> float:
    if not (math.isfinite(number) and number > 0):
        raise UsageError(f"{option} is {number}, but it must be above 0.")
    return number


def _not_negative(number: float, option: str) -> float:
    if not (math.isfinite(number) and number >= 0):
        raise UsageError(f"{option} is {number}, but it must be 0 or more.")
    return number
