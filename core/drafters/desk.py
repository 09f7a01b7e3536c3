"""The draft device's side of a round: times a drafter's work and settles branches against the outcome."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from specmon.core.drafters.base import Arrived, Branches, Drafted, Drafter, Outcome, Settled
from specmon.core.drafters.scripted import ScriptedDrafter


class Desk:
    """One drafter with the branches of its last proposal. Times are the lane clock's (ns)."""

    def __init__(self, drafter: Drafter, clock: Callable[[], int]) -> None:
        self._drafter = drafter
        self._clock = clock
        self._branches: Branches | None = None
        self._prefill: list[tuple[int, int]] = []

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._branches = None
        t0 = self._clock()
        self._drafter.begin(tokens, features_NF, first)
        self._drafter.take_work()
        self._prefill.append((t0, self._clock()))

    def script(self, truth: list[int]) -> None:
        if not isinstance(self._drafter, ScriptedDrafter):
            raise ValueError("only a scripted drafter takes a script")
        self._drafter.script(truth)

    def draft(self, draft_len: int) -> Drafted:
        t0 = self._clock()
        proposal = self._drafter.draft(draft_len)
        prefill, self._prefill = tuple(self._prefill), []
        return Drafted(
            proposal=proposal, t0=t0, t1=self._clock(), work=self._drafter.take_work(), prefill=prefill
        )

    def prepare(self, fan_out: tuple[int, ...], draft_len: int, arrived: Arrived) -> Branches:
        t0 = self._clock()
        prepared = self._drafter.prepare(fan_out, draft_len, self._clock, arrived)
        cut_short = not prepared and arrived() is not None
        self._branches = Branches(prepared=tuple(prepared), cut_short=cut_short, t0=t0, t1=self._clock())
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
        return Settled(received=received, work=self._drafter.take_work())
