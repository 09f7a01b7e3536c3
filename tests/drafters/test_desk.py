"""The desk times what a device stamped by the device's clock, which it measures at each turn and every second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specmon.core.device_clock import SYNC_EVERY_NS, DeviceClock
from specmon.core.drafters.base import Outcome, Prepared, Proposal, Work
from specmon.core.drafters.desk import Desk
from specmon.core.drafters.ngram import NgramDrafter
from specmon.core.events import ClockSync

AHEAD = 7_000_000  # of the host's clock, the device's


class Host:
    """A clock that goes on by 100 ns a look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 100
        return self.now


class Stamped(NgramDrafter):
    """Says that its passes ran for 10 ns each, from just after its work was asked for."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host, self.work = host, Work()

    def draft(self, draft_len: int) -> Proposal:
        self._ran()
        return super().draft(draft_len)

    def prepare(self, *asked: Any) -> list[Prepared]:
        self._ran()
        self._ran()
        return super().prepare(*asked)

    def take_work(self) -> Work:
        work, self.work = self.work, Work()
        return work

    def _ran(self) -> None:
        began = self.host() + AHEAD
        self.work += Work(forwards=1, ran=(began, began + 10))


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def clock(host: Host) -> DeviceClock:
    def answers() -> Iterator[tuple[int, int, int]]:
        yield host.now, host.now + AHEAD, host.now

    return DeviceClock("cuda:1", answers)


def begun(desk: Desk) -> Desk:
    desk.begin([1, 2, 3, 1, 2, 4, 1, 2], None, 0)
    return desk


def test_a_draft_and_branches_are_timed_by_the_device(host: Host, clock: DeviceClock) -> None:
    desk = begun(Desk(Stamped(host), host, clock))

    drafted = desk.draft(2)
    branches = desk.prepare((1, 1, 1), 2, lambda: None)

    assert drafted.t1 - drafted.t0 == 10
    assert branches.t1 - branches.t0 == 110  # from the first pass to the end of the second, 100 ns later
    assert drafted.t1 < branches.t0 < branches.t1 < host.now
    settled = desk.settle(Outcome(accepted=(), bonus=9))
    assert settled is not None
    assert settled.work.forwards == 2


def test_without_a_device_clock_the_host_times(host: Host) -> None:
    drafted = begun(Desk(Stamped(host), host)).draft(2)

    assert drafted.t1 - drafted.t0 == 200
    assert drafted.clocks == ()


def test_the_clock_is_measured_at_a_turn_and_every_second(host: Host, clock: DeviceClock) -> None:
    desk = begun(Desk(Stamped(host), host, clock))

    first = desk.draft(2).clocks
    again = desk.prepare((1, 1, 1), 2, lambda: None).clocks
    host.now += SYNC_EVERY_NS
    late = desk.prepare((1, 1, 1), 2, lambda: None).clocks
    next_turn = begun(desk).draft(2).clocks

    assert [len(found) for found in (first, again, late, next_turn)] == [1, 0, 1, 1]
    assert isinstance(first[0], ClockSync)
    assert (first[0].device, first[0].offset_ns) == ("cuda:1", AHEAD)


def test_a_clock_that_someone_else_measures_is_only_read(host: Host, clock: DeviceClock) -> None:
    clock.measure(t=0, lane=0, turn=0)
    drafted = begun(Desk(Stamped(host), host, clock, measured=True)).draft(2)

    assert drafted.clocks == ()
    assert drafted.t1 - drafted.t0 == 10
