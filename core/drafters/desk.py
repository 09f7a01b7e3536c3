"""The draft device's side of a round: times a drafter's work and settles branches against the outcome."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from specmon.core.drafters.base import Arrived, Drafted, Drafter, Outcome, Prepared, Verdict
from specmon.core.drafters.scripted import ScriptedDrafter
from specmon.core.events import MissReason


class Desk:
    """One drafter with the branches of its last proposal. Times are the lane clock's (ns)."""

    def __init__(self, drafter: Drafter, clock: Callable[[], int]) -> None:
        self._drafter = drafter
        self._clock = clock
        self._branches: list[Prepared] = []
        self._stretch: tuple[int, int] | None = None
        self._cut_short = False
        self._prefill: list[tuple[int, int]] = []

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._forget()
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

    def prepare(self, fan_out: tuple[int, ...], draft_len: int, arrived: Arrived) -> None:
        t0 = self._clock()
        self._branches = self._drafter.prepare(fan_out, draft_len, self._clock, arrived)
        self._cut_short = not self._branches and arrived() is not None
        self._stretch = (t0, self._clock())

    def settle(self, outcome: Outcome, received: int | None = None) -> Verdict | None:
        """Take the outcome in; a verdict where branches were asked for, else None."""
        if self._stretch is None:
            self._drafter.commit(outcome)
            return None
        received = self._clock() if received is None else received
        hit = next(
            (i for i, b in enumerate(self._branches) if b.key == outcome.key and b.proposal is not None), None
        )
        if hit is None:
            self._drafter.commit(outcome)
        else:
            self._drafter.adopt(outcome, self._branches[hit])
        verdict = Verdict(
            branches=tuple(self._branches),
            hit=hit,
            miss=None if hit is not None else self._miss(outcome),
            t0=self._stretch[0],
            t1=self._stretch[1],
            received=received,
            work=self._drafter.take_work(),
        )
        self._forget()
        return verdict

    def _miss(self, outcome: Outcome) -> MissReason:
        """Its bonus was not among the guesses; or the outcome came before there were any; or that accepted_len had none."""
        if any(b.accepted_len == outcome.accepted_len for b in self._branches):
            return "rank"
        return "late" if self._cut_short else "none"

    def _forget(self) -> None:
        self._branches, self._stretch, self._cut_short = [], None, False
