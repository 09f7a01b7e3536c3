"""How far logits are from a yardstick's, position by position."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from torch import Tensor


class Distance(msgspec.Struct, frozen=True, kw_only=True):
    """Of one position. `error`: largest |difference| of a logit ÷ the standard deviation of the yardstick's logits.

    `total_variation`: half the sum of |p − q| over the vocabulary, 0 … 1. `flipped`: whether another token is best.
    """

    position: int
    error: float
    total_variation: float
    flipped: bool


def distances(first: int, found_RV: Tensor, expected_RV: Tensor) -> list[Distance]:
    """Of the positions first, first + 1, …: logits [R, V], both fp32 on one device."""
    error = (found_RV - expected_RV).abs().amax(-1) / expected_RV.std(-1)
    moved = (found_RV.softmax(-1) - expected_RV.softmax(-1)).abs().sum(-1) / 2
    flipped = found_RV.argmax(-1) != expected_RV.argmax(-1)
    rows = zip(error.tolist(), moved.tolist(), flipped.tolist(), strict=True)
    return [
        Distance(position=first + i, error=e, total_variation=tv, flipped=flip)
        for i, (e, tv, flip) in enumerate(rows)
    ]


class Along(msgspec.Struct, frozen=True, kw_only=True):
    """Distances along a stretch of text. `worst_position`: where the total variation distance is largest.

    `jump`: the first position at which it is beyond the bound, None where it stays within.
    """

    n_positions: int
    max_error: float
    mean_total_variation: float
    max_total_variation: float
    worst_position: int
    top1_flips: int
    jump: int | None


def along(found: Sequence[Distance], bound: float) -> Along:
    """Sum `found` up. A distance that is no number is beyond every bound. Raises: ValueError for no positions."""
    if not found:
        raise ValueError("no positions")
    worst = max(found, key=lambda d: _ranked(d.total_variation))
    return Along(
        n_positions=len(found),
        max_error=max((d.error for d in found), key=_ranked),
        mean_total_variation=sum(d.total_variation for d in found) / len(found),
        max_total_variation=worst.total_variation,
        worst_position=worst.position,
        top1_flips=sum(d.flipped for d in found),
        jump=next((d.position for d in found if not d.total_variation <= bound), None),
    )


def _ranked(value: float) -> float:
    return value if value == value else float("inf")
