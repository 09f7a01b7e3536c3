"""Device stamps as host times."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.device_clock import SYNC_EVERY_NS, DeviceClock, offset_of
from specmon.core.events import ClockSync, Log

LAG = st.integers(0, 50_000)


@given(
    offset=st.integers(-(10**15), 10**15),
    trips=st.lists(st.tuples(st.integers(0, 10**12), LAG, LAG), min_size=1, max_size=8),
)
def test_the_true_offset_lies_within_the_bound(offset: int, trips: list[tuple[int, int, int]]) -> None:
    answers = [(sent, sent + out + offset, sent + out + back) for sent, out, back in trips]
    found = offset_of(answers)

    assert abs(found.offset_ns - offset) <= found.bound_ns + 1
    assert found.bound_ns == (min(out + back for _, out, back in trips) + 1) // 2


def test_no_answer_is_no_offset() -> None:
    with pytest.raises(ValueError, match="empty"):
        offset_of([])


class Drifting:
    """A device whose clock runs fast by `ppm`."""

    def __init__(self, ppm: float) -> None:
        self.rate, self.now = 1 + ppm / 1e6, 0

    def stamp(self, host: int) -> int:
        return round(host * self.rate) + 7_000_000

    def answers(self) -> list[tuple[int, int, int]]:
        return [(self.now - 400, self.stamp(self.now), self.now + 400)]


def measured(clock: DeviceClock) -> ClockSync:
    found = clock.measure(t=9, lane=0, turn=1)
    assert isinstance(found, ClockSync)
    return found


def test_drift_is_followed() -> None:
    device = Drifting(ppm=50)
    clock = DeviceClock("cuda:0", device.answers)
    assert clock.host(0) is None
    assert clock.is_due(0)
    assert measured(clock).offset_ns == 7_000_000
    assert not clock.is_due(device.now + SYNC_EVERY_NS - 1)
    device.now = SYNC_EVERY_NS
    assert clock.is_due(device.now)
    assert measured(clock).bound_ns == 400

    for host in (SYNC_EVERY_NS // 2, SYNC_EVERY_NS, 2 * SYNC_EVERY_NS):
        found = clock.host(device.stamp(host))
        assert found is not None
        assert abs(found - host) <= 10


def test_stamps_lie_within_what_the_host_saw() -> None:
    device = Drifting(ppm=0)
    clock = DeviceClock("cuda:0", device.answers)
    stamps = (device.stamp(1_000), device.stamp(5_000))
    assert clock.within(stamps, 500, 6_000) == (500, 6_000)  # not measured yet
    measured(clock)

    assert clock.within(stamps, 500, 6_000) == (1_000, 5_000)
    assert clock.within(stamps, 1_100, 4_900) == (1_100, 4_900)
    assert clock.within(None, 500, 6_000) == (500, 6_000)


def test_a_device_that_does_not_answer_is_said_once() -> None:
    def silent() -> list[tuple[int, int, int]]:
        raise TimeoutError("cuda:0 does not tell its time")

    clock = DeviceClock("cuda:0", silent)
    found = clock.measure(t=9, lane=0, turn=1)

    assert isinstance(found, Log)
    assert found.text == "cuda:0 does not tell its time: its passes are timed by the host."
    assert not clock.is_due(10 * SYNC_EVERY_NS)
    assert clock.within((1, 2), 500, 6_000) == (500, 6_000)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpus_stamps_lie_where_the_host_saw_them() -> None:
    from specmon.kernels.clock.launch import PingPong

    ask = PingPong(torch.device("cuda:0"))
    clock = DeviceClock("cuda:0", lambda: ask(time.monotonic_ns))
    measured(clock)
    for _ in range(3):
        bound = measured(clock).bound_ns
        for before, at, after in ask(time.monotonic_ns):
            found = clock.host(at)
            assert found is not None
            assert before - bound <= found <= after + bound
