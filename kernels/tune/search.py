"""Picks the fastest schedule of one matmul; what is measured, and on what, is the bench's business."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specmon.kernels.stream.schedule import Schedule

FINALISTS = 4
LEAST_GAIN = 0.01  # a schedule is not changed for less


class Bench(Protocol):
    """One matmul that can be run under any schedule."""

    def output(self, schedule: Schedule) -> Sequence[Tensor]:
        """Everything it writes, from the same input each time. Raises: whatever a schedule that cannot run raises."""
        ...

    def times_us(self, schedules: Sequence[Schedule], rounds: int) -> list[list[float]]:
        """Microseconds a launch, `rounds` of them for each schedule, taken in turns."""
        ...


@dataclass(frozen=True, kw_only=True)
class Found:
    """The outcome for one matmul; `best` is the schedule in use where nothing beats it.

    `same_bits`: of `best` and the schedule in use. Counts: schedules `tried`, of these `refused` by the compiler or the
    GPU, and `other_bits` left out for changing the result.
    """

    current: Schedule
    current_us: float
    best: Schedule
    best_us: float
    same_bits: bool
    tried: int
    refused: int
    other_bits: int

    @property
    def changed(self) -> bool:
        return self.best != self.current


def search(
    current: Schedule,
    candidates: Sequence[Schedule],
    bench: Bench,
    *,
    new_bits: bool,
    rounds: int = 20,
    progress: Callable[[int], None] = lambda done: None,
) -> Found:
    """Try `candidates` against `current`.

    Each runs once for its output: with other bits than `current`'s it is left out unless `new_bits`. A short run picks
    finalists, which meet `current` in turns; the best median wins if it gains LEAST_GAIN.
    """
    wanted = bench.output(current)
    same: dict[Schedule, bool] = {}
    refused = 0
    for done, schedule in enumerate(candidates):
        progress(done)
        try:
            same[schedule] = _equal(bench.output(schedule), wanted)
        except Exception:  # Triton, ptxas and the driver each raise their own kinds
            refused += 1
    allowed = [schedule for schedule, equal in same.items() if equal or new_bits]
    finalists = _fastest(allowed, bench, max(1, rounds // 4))[:FINALISTS]
    medians = _medians([current, *finalists], bench, rounds)
    best = min(medians, key=lambda schedule: medians[schedule])
    if medians[best] > medians[current] * (1 - LEAST_GAIN):
        best = current
    return Found(
        current=current,
        current_us=medians[current],
        best=best,
        best_us=medians[best],
        same_bits=same.get(best, True),
        tried=len(candidates),
        refused=refused,
        other_bits=len(same) - len(allowed),
    )


def _equal(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def _medians(schedules: Sequence[Schedule], bench: Bench, rounds: int) -> dict[Schedule, float]:
    times = bench.times_us(schedules, rounds)
    return {s: statistics.median(each) for s, each in zip(schedules, times, strict=True)}


def _fastest(schedules: Sequence[Schedule], bench: Bench, rounds: int) -> list[Schedule]:
    medians = {s: m for one in schedules for s, m in _medians([one], bench, rounds).items()}
    return sorted(medians, key=lambda schedule: medians[schedule])
