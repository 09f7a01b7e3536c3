"""A run's state in one file: weights, the optimiser's moments, the step, the curve so far, and sums for its next point.

The order of the rows follows from seed and step, and nothing else is random: on the same devices a resumed run ends with
the bits of one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from specmon.core.errors import SpecmonError
from specmon.core.training.atomic import write_whole
from specmon.core.training.held_out import Acceptance

_MOMENTS = ("exp_avg", "exp_avg_sq")


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. `loss` and `tokens_per_s` are means since the one before (None: no step was made)."""

    step: int
    loss: float | None
    tokens_per_s: float | None
    held_out: Acceptance


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Of the steps since the last point of the curve: the loss over `places`, and the `tokens` that took `took_s`."""

    loss: float = 0.0
    places: float = 0.0
    tokens: int = 0
    took_s: float = 0.0


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says of the training, beside its tensors: the steps that are done, and what was measured."""

    step: int
    curve: list[CurvePoint]
    sums: Sums = Sums()


def save_checkpoint(
    path: Path, module: nn.Module, optimiser: torch.optim.Optimizer, training: Written
) -> None:
    """Put the state of a training in the place of the last one. Raises: SpecmonError, the last one being whole."""
    tensors = {f"weight.{name}": tensor for name, tensor in module.state_dict().items()}
    for name, parameter in module.named_parameters():
        for moment in _MOMENTS:
            tensors[f"{moment}.{name}"] = optimiser.state[parameter][moment]
    written = msgspec.json.encode(training).decode()
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, lambda part: save_file(plain, part, metadata={"training": written}))


def load_checkpoint(path: Path, module: nn.Module, optimiser: torch.optim.Optimizer) -> Written:
    """Restore weights and moments; what was written beside them. Raises: SpecmonError."""
    with _opened(path) as (file, written):
        module.load_state_dict({name: file.get_tensor(f"weight.{name}") for name in module.state_dict()})
        for name, parameter in module.named_parameters():
            moments = {m: file.get_tensor(f"{m}.{name}").to(parameter.device) for m in _MOMENTS}
            count = torch.tensor(float(written.step), device=parameter.device)
            optimiser.state[parameter] = {"step": count, **moments}
    return written


def steps_done(path: Path) -> int:
    """After how many steps the state was saved. Raises: SpecmonError."""
    with _opened(path) as (_, written):
        return written.step


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Written]]:
    """The file, and what it says of the training. Raises: SpecmonError where it, or what is done with it within, fails."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file, msgspec.json.decode(file.metadata()["training"], type=Written)
    except (OSError, KeyError, TypeError, RuntimeError, SafetensorError, msgspec.MsgspecError) as bad:
        raise SpecmonError(
            f"{path} is no checkpoint of this run ({bad}).", "Remove it to begin again."
        ) from bad
