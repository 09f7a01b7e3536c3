"""`check reference`: a target's logits against Hugging Face's along a text, prefill and cached decode apart.

The yardstick is Hugging Face in fp32. A recipe in fp32 has to come close to it; one in bf16 has to be no further from it
than Hugging Face's own bf16 is, but for a factor. Each run prefills up to a place near a border of chunks and decodes on
from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import torch
from torch import Tensor

from specmon.core.checks.distance import Along, Distance, along, distances
from specmon.core.checks.logits import TextLogits
from specmon.core.checks.text import ids_of_length, text_ids
from specmon.core.models.pool import LoadedModel
from specmon.core.models.tokenizer import Tokenizer

SHORT, LONG = (255, 256, 257), (2047, 2048, 2049)
DECODED, ROW_COUNTS = 12, (1, 2, 3)
#: fp32: largest relative error and total variation distance.
FP32_ERROR, FP32_VARIATION = 1e-3, 1e-3
#: bf16: as many times Hugging Face's own bf16 in the mean, and of its largest at one position; and what is always allowed.
BF16_MEAN, BF16_MAX, BF16_SLACK = 1.5, 3.0, 0.01

Path = Literal["prefill", "decode"]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a recipe's logits must hold; None: not held to it."""

    error: float | None
    variation: float
    mean_variation: float | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of text through one path. `border`: tokens prefilled; decode goes on from there."""

    recipe: str
    path: Path
    border: int
    distance: Along
    fault: str | None


class Yardstick:
    """Hugging Face's logits along `ids`, and how far its own bf16 is from them."""

    def __init__(
        self, ids: Sequence[int], logits_of: Callable[[torch.dtype], Tensor], recipes: Sequence[str]
    ) -> None:
        self.ids = list(ids)
        self.logits_NV = logits_of(torch.float32)
        self.rounding: Along | None = None
        if "bf16" in recipes:
            rounded = logits_of(torch.bfloat16)
            found = [
                d
                for first in range(0, len(ids), 256)
                for d in _distances(first, rounded[first : first + 256], self.logits_NV)
            ]
            self.rounding = along(found, 1.0)

    def bounds(self, recipe: str) -> Bounds:
        """Of the recipe "fp32" or "bf16"."""
        if recipe == "fp32":
            return Bounds(error=FP32_ERROR, variation=FP32_VARIATION, mean_variation=None)
        assert self.rounding is not None
        return Bounds(
            error=None,
            variation=BF16_MAX * self.rounding.max_total_variation + BF16_SLACK,
            mean_variation=BF16_MEAN * self.rounding.mean_total_variation + BF16_SLACK,
        )


def borders(context_length: int, *, long: bool) -> tuple[int, ...]:
    """Where prefill ends, as far as the context holds it and what is decoded behind it; at least one place."""
    wanted = (*SHORT, *LONG) if long else SHORT
    fitting = tuple(border for border in wanted if border + DECODED <= context_length)
    return fitting or (max(1, context_length - DECODED),)


def reference_ids(tokenizer: Tokenizer, context_length: int, *, long: bool) -> list[int]:
    """The token ids that the longest run takes."""
    length = min(max(borders(context_length, long=long)) + DECODED, context_length)
    return ids_of_length(text_ids(tokenizer, length), length)


def compare(loaded: LoadedModel, yardstick: Yardstick, *, long: bool, graphs: bool = True) -> Iterator[Run]:
    """The model's own logits against the yardstick's: two runs a border, each given out as it is done."""
    bounds = yardstick.bounds(loaded.recipe.name)
    with torch.inference_mode():
        own = TextLogits(loaded, len(yardstick.ids), graphs=graphs)
    for border in borders(loaded.context_length, long=long):
        ids = yardstick.ids[: border + DECODED]
        path: Path
        for path, parts in (
            ("prefill", own.prefill(ids[:border])),
            ("decode", own.decode(ids, border, ROW_COUNTS)),
        ):
            with torch.inference_mode():
                found = [d for first, logits in parts for d in _distances(first, logits, yardstick.logits_NV)]
            distance = along(found, bounds.variation)
            yield Run(
                recipe=loaded.recipe.name,
                path=path,
                border=border,
                distance=distance,
                fault=fault_of(found, distance, bounds),
            )


def fault_of(found: Sequence[Distance], distance: Along, bounds: Bounds) -> str | None:
    """What is beyond a bound, in words that go on a sentence; None where nothing is."""
    if distance.jump is not None:
        return _jump(found, distance.jump, bounds.variation)
    if bounds.error is not None and not distance.max_error <= bounds.error:
        return f"the largest relative error is {distance.max_error:.2g}, above {bounds.error:g}"
    if bounds.mean_variation is not None and not distance.mean_total_variation <= bounds.mean_variation:
        return (
            f"the mean total variation distance is {distance.mean_total_variation:.3f}, "
            f"above {bounds.mean_variation:.3f}"
        )
    return None


def _jump(found: Sequence[Distance], position: int, bound: float) -> str:
    here = next(d.total_variation for d in found if d.position == position)
    before = [d.total_variation for d in found if d.position < position]
    earlier = f"at most {max(before):.2g} before it" if before else "the first of this run"
    return (
        f"the total variation distance jumps to {here:.3g} at position {position} "
        f"({earlier}; the bound is {bound:.2g})"
    )


def _distances(first: int, logits_RV: Tensor, expected_NV: Tensor) -> list[Distance]:
    expected_RV = expected_NV[first : first + len(logits_RV)].to(logits_RV.device)
    return distances(first, logits_RV, expected_RV)
