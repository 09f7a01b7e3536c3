"""The draft device's side of a round: times a drafter's work and settles branches against the outcome."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from specmon.core.device_clock import DeviceClock
from specmon.core.drafters.base import Arrived, Branches, Drafted, Drafter, Outcome, Settled, Work
from specmon.core.drafters.scripted import ScriptedDrafter
from specmon.core.events import ClockSync, Log


class Desk:
    """One drafter with the branches of its last proposal. Times are the lane clock's (ns).

    Work is timed by the device where it stamps its passes, else by the host.

    Args:
        device_clock: the draft device's; measured here, at each turn and every second, unless `measured` by someone else.
    """

    def __init__(
        self,
        drafter: Drafter,
        clock: Callable[[], int],
        device_clock: DeviceClock | None = None,
        *,
        measured: bool = False,
    ) -> None:
        self._drafter = drafter
        self._clock = clock
        self._device_clock, self._measured = device_clock, measured
        self._new_turn = False
        self._branches: Branches | None = None
        self._branch_work = Work()
        self._prefill: list[tuple[int, int]] = []

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._branches, self._new_turn = None, True
        t0 = self._clock()
        self._drafter.begin(tokens, features_NF, first)
        self._drafter.take_work()
        self._prefill.append((t0, self._clock()))

    def script(self, truth: list[int]) -> None:
        if not isinstance(self._drafter, ScriptedDrafter):
            raise ValueError("only a scripted drafter takes a script")
        self._drafter.script(truth)

    def draft(self, draft_len: int) -> Drafted:
        clocks = self._measure()
        t0 = self._clock()
        proposal = self._drafter.draft(draft_len)
        work = self._drafter.take_work()
        prefill, self._prefill = tuple(self._prefill), []
        t0, t1 = self._within(work, t0, self._clock())
        return Drafted(proposal=proposal, t0=t0, t1=t1, work=work, prefill=prefill, clocks=clocks)

    def prepare(self, fan_out: tuple[int, ...], draft_len: int, arrived: Arrived) -> Branches:
        clocks = self._measure()
        t0 = self._clock()
        prepared = self._drafter.prepare(fan_out, draft_len, self._clock, arrived)
        cut_short = not prepared and arrived() is not None
        self._branch_work = self._drafter.take_work()
        t0, t1 = self._within(self._branch_work, t0, self._clock())
        self._branches = Branches(prepared=tuple(prepared), cut_short=cut_short, t0=t0, t1=t1, clocks=clocks)
        return self._branches

    def settle(self, outcome: Outcome, received: int | None = None) -> Settled | None:
        """Take the outcome in; an answer where branches were asked for, else None."""
        if self._branches is None:
            self._drafter.commit(outcome)
            return None
        received = self._clock() if received is None else received
        branches, self._branches = self._branches, None
        hit = branches.hit(outcome)
        if hit is None:
            self._drafter.commit(outcome)
        else:
            self._drafter.adopt(outcome, branches.prepared[hit])
        return Settled(received=received, work=self._branch_work + self._drafter.take_work())

    def _measure(self) -> tuple[ClockSync | Log, ...]:
        """The device's clock against the host's, where that is due; nothing runs on the device now."""
        clock, now = self._device_clock, self._clock()
        if clock is None or self._measured or not (self._new_turn or clock.is_due(now)):
            return ()
        self._new_turn = False
        return (clock.measure(t=now, lane=0, turn=0),)

    def _within(self, work: Work, t0: int, t1: int) -> tuple[int, int]:
        return (t0, t1) if self._device_clock is None else self._device_clock.within(work.ran, t0, t1)
