"""Medians with bootstrap intervals.

Requests on one prompt resemble each other, so a resample draws prompts, and then requests of each prompt drawn.
Source: Efron 1979 (the bootstrap, percentile intervals); Davison & Hinkley 1997, section 3.8 (resampling groups, then
within them).
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence

import msgspec

RESAMPLES = 2_000
CONFIDENCE = 0.95


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A median of `n` requests and its 95 % interval, None where a single one tells of no spread."""

    median: float
    low: float | None
    high: float | None
    n: int


def estimate(
    by_prompt: Mapping[str, Sequence[float]], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate | None:
    """The median over all requests, with a percentile interval from seeded resamples.

    Args:
        by_prompt: one value a request, by the prompt it was measured on; prompts without a value are left out.
    Returns: None without a value.
    """
    groups = [list(values) for values in by_prompt.values() if values]
    if not groups:
        return None
    values = [value for group in groups for value in group]
    if len(values) == 1:
        return Estimate(median=values[0], low=None, high=None, n=1)
    draw = random.Random(seed)
    medians = sorted(statistics.median(_resample(groups, draw)) for _ in range(resamples))
    tail = (1 - CONFIDENCE) / 2
    return Estimate(
        median=statistics.median(values),
        low=_quantile(medians, tail),
        high=_quantile(medians, 1 - tail),
        n=len(values),
    )


def _resample(groups: Sequence[list[float]], draw: random.Random) -> list[float]:
    return [v for group in draw.choices(groups, k=len(groups)) for v in draw.choices(group, k=len(group))]


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    """Linear between the two values nearest to `fraction` of the way."""
    place = fraction * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
