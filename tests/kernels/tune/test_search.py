"""How a winner is picked, with a clock and outputs that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.tune.search import FINALISTS, search

CURRENT = Schedule(bn=64, bk=64, stages=2)
DEEPER, DEEPEST = Schedule(bn=64, bk=64, stages=3), Schedule(bn=64, bk=64, stages=4)
SPLIT = Schedule(bn=64, bk=64, stages=2, split=2)
REFUSED = Schedule(bn=128, bk=512, stages=6)


@dataclass
class MadeUp:
    """Times by schedule; another split gives other bits; REFUSED does not run."""

    times: dict[Schedule, float]
    raced: list[tuple[Schedule, ...]] = field(default_factory=list)

    def output(self, schedule: Schedule) -> list[Tensor]:
        if schedule == REFUSED:
            raise RuntimeError("out of resource: shared memory")
        return [torch.ones(2), torch.full((3,), float(schedule.split))]

    def times_us(self, schedules: Sequence[Schedule], rounds: int) -> list[list[float]]:
        self.raced.append(tuple(schedules))
        return [[self.times[s]] * rounds for s in schedules]


def test_the_fastest_with_the_same_bits_wins() -> None:
    bench = MadeUp({CURRENT: 10.0, DEEPER: 9.0, DEEPEST: 8.0, SPLIT: 5.0})
    found = search(CURRENT, [DEEPER, SPLIT, DEEPEST, REFUSED], bench, new_bits=False)

    assert (found.best, found.best_us, found.same_bits) == (DEEPEST, 8.0, True)
    assert (found.tried, found.refused, found.other_bits) == (4, 1, 1)
    assert SPLIT not in {schedule for race in bench.raced for schedule in race}


def test_other_bits_may_win_where_a_new_version_is_wanted() -> None:
    bench = MadeUp({CURRENT: 10.0, DEEPER: 9.0, SPLIT: 5.0})
    found = search(CURRENT, [DEEPER, SPLIT], bench, new_bits=True)

    assert (found.best, found.same_bits, found.other_bits) == (SPLIT, False, 0)


def test_a_gain_within_the_noise_changes_nothing() -> None:
    found = search(CURRENT, [DEEPER], MadeUp({CURRENT: 10.0, DEEPER: 9.95}), new_bits=False)

    assert not found.changed
    assert (found.best_us, found.same_bits) == (10.0, True)


def test_finalists_and_the_schedule_in_use_are_timed_in_turns() -> None:
    many = [Schedule(bn=64, bk=64, stages=2, warps=w) for w in range(1, 9)]
    bench = MadeUp({CURRENT: 5.0} | {s: 20.0 - s.warps for s in many if s != CURRENT})
    search(CURRENT, [s for s in many if s != CURRENT], bench, new_bits=False)

    assert bench.raced[-1][0] == CURRENT
    assert [s.warps for s in bench.raced[-1][1:]] == [8, 7, 6, 5][:FINALISTS]


def test_nothing_that_runs_leaves_the_schedule_in_use() -> None:
    found = search(CURRENT, [REFUSED], MadeUp({CURRENT: 10.0}), new_bits=True)

    assert (found.best, found.refused) == (CURRENT, 1)
