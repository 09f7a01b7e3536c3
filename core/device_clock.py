"""A device's clock against the host's: measured by ping-pong, so that what a device stamped can stand beside host times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch

from specmon.core.events import ClockSync, Log

Answers = Iterable[tuple[int, int, int]]
SYNC_EVERY_NS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Offset:
    """The device's clock is the host's plus `offset_ns`, within `bound_ns`, at host time `at`."""

    at: int
    offset_ns: int
    bound_ns: int


def offset_of(answers: Answers) -> Offset:
    """From (host before, device, host after) of several questions: the one whose two host times lie nearest.

    The device answered between them, so its clock less their middle is off by half their distance at most.
    Source: Cristian 1989, "Probabilistic clock synchronization".
    Raises: ValueError without an answer.
    """
    found = [
        Offset(
            at=(before + after) // 2, offset_ns=at - (before + after) // 2, bound_ns=(after - before + 1) // 2
        )
        for before, at, after in answers
    ]
    return min(found, key=lambda offset: offset.bound_ns)


class DeviceClock:
    """Turns a device's stamps into host times, once it was measured.

    Args:
        device: its name in events. ask: questions it a few times, as (host before, device, host after);
        raises TimeoutError where it does not answer.
    """

    def __init__(self, device: str, ask: Callable[[], Answers]) -> None:
        self._device, self._ask = device, ask
        self._last: Offset | None = None
        self._drift = 0.0  # ns the device gains a ns of host time
        self._silent = False

    def is_due(self, now: int) -> bool:
        """Whether it was never measured, or a second ago; never once it did not answer."""
        return not self._silent and (self._last is None or now - self._last.at >= SYNC_EVERY_NS)

    def measure(self, *, t: int, lane: int, turn: int) -> ClockSync | Log:
        """Measure, and say what was found; after no answer, nothing is known and nothing asked again.

        Between two measurements, and on from the last, the offset is taken to change evenly.
        """
        try:
            new, last = offset_of(self._ask()), self._last
        except TimeoutError as silent:
            self._silent, self._last = True, None
            text = f"{silent}: its passes are timed by the host."
            return Log(t=t, lane=lane, turn=turn, level="warning", text=text)
        if last is not None and new.at > last.at:
            self._drift = (new.offset_ns - last.offset_ns) / (new.at - last.at)
        self._last = new
        return ClockSync(
            t=t,
            lane=lane,
            turn=turn,
            device=self._device,
            offset_ns=new.offset_ns,
            bound_ns=new.bound_ns,
        )

    def host(self, stamp: int) -> int | None:
        """The host time of a device's stamp (ns), None where the clock is not known."""
        if self._last is None:
            return None
        about = stamp - self._last.offset_ns
        return about - round(self._drift * (about - self._last.at))

    def within(self, stamps: tuple[int, int] | None, t0: int, t1: int) -> tuple[int, int]:
        """When the device worked: its stamps as host times, or t0 and t1, between which the host saw it work."""
        times = [None, None] if stamps is None else [self.host(stamp) for stamp in stamps]
        began, ended = (time if time is None else min(max(time, t0), t1) for time in times)
        return (t0, t1) if began is None or ended is None else (began, ended)


def open_clock(device: str, clock: Callable[[], int]) -> DeviceClock | None:
    """A CUDA device's clock, in time of `clock`; None elsewhere. Not measured yet: the first time compiles."""
    if not device.startswith("cuda") or find_spec("triton") is None:
        return None
    from specmon.kernels.clock.launch import PingPong

    return DeviceClock(device, partial(PingPong(torch.device(device)), clock))
