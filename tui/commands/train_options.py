"""Options of `specmon train`, and how they are checked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands.bench_files import folder
from specmon.tui.commands.numbers import bounded, whole_number

if TYPE_CHECKING:
    from specmon.core.training.config import TextSettings


def _data_folder(text: str) -> Path:
    return folder(text, "--data")


Out = Annotated[
    Path,
    typer.Option(metavar="FOLDER", parser=folder, help="The run's folder: what was begun there goes on."),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        parser=_data_folder,
        help="Text the target wrote, shared by runs. Default: in --out.",
    ),
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
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of first weights and of the order of rows.")]
TextSeed = Annotated[int, typer.Option(metavar="N", help="Seed of the text the target writes.")]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FOLDER",
        help="Begin with the weights and the vocabulary of this drafter, not with random ones.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the settings that --out was begun with.")]
Layers = Annotated[int, typer.Option(metavar="N", help="Its layers.")]
DraftVocab = Annotated[
    int, typer.Option(metavar="N", help="Its vocabulary: so many of the commonest tokens.")
]
Taps = Annotated[
    str,
    typer.Option(
        metavar="L,L,L", help="Target layers whose input it reads. Default: of L layers 2, L/2 and L-3."
    ),
]


def text_settings(target: str, row_tokens: int, prompts: Path | None, seed: int) -> TextSettings:
    """Raises: UsageError."""
    from specmon.core.training.config import TextSettings
    from specmon.core.training.prompts import read_prompts, sha256_of

    if not target.strip():
        raise UsageError("--target is empty.")
    return TextSettings(
        target=target,
        row_tokens=bounded(row_tokens, "--row-tokens", 32),
        prompts=str(prompts) if prompts else "",
        prompts_sha256=sha256_of(read_prompts(str(prompts))) if prompts else "",
        seed=seed_of(seed, "--text-seed"),
    )


def seed_of(seed: int, option: str) -> int:
    """Raises: UsageError."""
    if not 0 <= seed < 2**31:
        raise UsageError(f"{option} is {seed}, but it must be 0 to {2**31 - 1}.")
    return seed


def devices_of(text: str) -> tuple[str, ...]:
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


def layers_of(text: str) -> tuple[int, ...]:
    """The layers `--taps` names. Raises: UsageError."""
    layers = [whole_number(part) for part in text.split(",")] if text.strip() else []
    if None in layers:
        raise UsageError(f"--taps is {text!r}, but it takes layer numbers, like 3,15,27.")
    return tuple(layer for layer in layers if layer is not None)


def positive(number: float, option: str) -> float:
    """Raises: UsageError."""
    if not (math.isfinite(number) and number > 0):
        raise UsageError(f"{option} is {number}, but it must be above 0.")
    return number


def not_negative(number: float, option: str) -> float:
    """Raises: UsageError."""
    if not (math.isfinite(number) and number >= 0):
        raise UsageError(f"{option} is {number}, but it must be 0 or more.")
    return number
