"""`check quality`: what a recipe costs in text, against fp32 on the same weights.

Each recipe is fed the shipped text in decode passes of 16 rows, so that its decode kernels, KV format and head are what is
looked at. Perplexity is exp of the mean of −ln p(next token); top-1 agreement is how often the best token is fp32's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import torch

from specmon.core.checks.logits import TextLogits
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.pool import LoadedModel

YARDSTICK = "fp32"


class QualityBound(msgspec.Struct, frozen=True, kw_only=True):
    """How much more perplexity a recipe may have than fp32, and how often its best token must be fp32's."""

    perplexity: float
    top1: float


BOUNDS: dict[str, QualityBound] = {
    "bf16": QualityBound(perplexity=1.01, top1=0.95),
    "q4": QualityBound(perplexity=1.02, top1=0.93),
    "fp8": QualityBound(perplexity=1.03, top1=0.85),
    "fp8-bf16-head": QualityBound(perplexity=1.03, top1=0.90),
}


class RecipeQuality(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe. `over_fp32`: its perplexity ÷ fp32's. `fault`: what is beyond its bound, in words; None: nothing."""

    recipe: str
    backend: str
    perplexity: float
    over_fp32: float
    top1: float
    bound: QualityBound | None
    fault: str | None


@dataclass(frozen=True, kw_only=True)
class Read:
    """A recipe's reading of the text: the mean −ln p of each next token, and its best token at each place."""

    loss: float
    best: tuple[int, ...]


@torch.inference_mode()
def read(loaded: LoadedModel, ids: Sequence[int], *, graphs: bool = True) -> Read:
    """Feed `ids`, two or more."""
    own = TextLogits(loaded, len(ids), graphs=graphs)
    loss, best = 0.0, []
    for first, logits_RV in chain(own.prefill(ids[:1]), own.decode(ids[:-1], 1, (MAX_ROWS,))):
        following = ids[first + 1 : first + 1 + len(logits_RV)]
        log_probs_RV = logits_RV.log_softmax(-1)
        loss -= sum(float(log_probs_RV[row, token]) for row, token in enumerate(following))
        best += logits_RV.argmax(-1).tolist()
    return Read(loss=loss / (len(ids) - 1), best=tuple(best))


def quality(loaded: LoadedModel, found: Read, yardstick: Read) -> RecipeQuality:
    """Hold a recipe's reading against that of fp32."""
    recipe, bound = loaded.recipe.name, BOUNDS.get(loaded.recipe.name)
    over = math.exp(found.loss - yardstick.loss)
    same = sum(a == b for a, b in zip(found.best, yardstick.best, strict=True)) / len(found.best)
    return RecipeQuality(
        recipe=recipe,
        backend=loaded.recipe.backend,
        perplexity=math.exp(found.loss),
        over_fp32=over,
        top1=same,
        bound=bound,
        fault=None if bound is None else _fault(over, same, bound),
    )


def _fault(over: float, top1: float, bound: QualityBound) -> str | None:
    if not over <= bound.perplexity:
        return f"its perplexity is {over:.3f} times fp32's, above {bound.perplexity:g}"
    if top1 < bound.top1:
        return f"its best token is fp32's at {top1:.3f} of the positions, below {bound.top1:g}"
    return None
