"""Scripted drafter: knows the true continuation and proposes it with a chosen accuracy.

For calibration on targets nothing accepts for, and to force every pattern of acceptance, hit and miss in tests. Always
labelled. What the target does with the proposal is real.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from specmon.core.drafters.base import Arrived, Drafter, DrafterInfo, Outcome, Prepared, Proposal, Work


@dataclass(frozen=True)
class Step:
    """What one draft is to be: its first `accepted` tokens right and the next wrong; whether the outcome has a branch."""

    accepted: int
    covered: bool


class Plan(Protocol):
    """Decides each draft in turn."""

    def next(self, draft_len: int) -> Step: ...


class PatternPlan:
    """Repeats a list of steps (tests force every pattern with it)."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps, self._at = list(steps), 0

    def next(self, draft_len: int) -> Step:
        step = self._steps[self._at % len(self._steps)]
        self._at += 1
        return step


class AccuracyPlan:
    """Each position is right with probability `alpha`; the outcome has a branch with probability `coverage`."""

    def __init__(self, alpha: float, *, coverage: float = 0.6, seed: int = 0) -> None:
        self._alpha, self._coverage, self._random = alpha, coverage, random.Random(seed)

    def next(self, draft_len: int) -> Step:
        accepted = 0
        while accepted < draft_len and self._random.random() < self._alpha:
            accepted += 1
        return Step(accepted, self._random.random() < self._coverage)


class ScriptedDrafter:
    """Proposes `truth` (set with `script`) as its plan says.

    Args:
        vocab_size: wrong tokens are the true one plus one, modulo this.
        inner: a real drafter that works beside the script (its proposals are dropped), so that time is spent.
    """

    def __init__(self, plan: Plan, vocab_size: int, *, label: str, inner: Drafter | None = None) -> None:
        self._plan, self._vocab, self._inner = plan, vocab_size, inner
        own = inner.info if inner else DrafterInfo(kind="scripted", label=label)
        self.info = DrafterInfo(
            kind="scripted",
            label=label,
            tap_layers=own.tap_layers,
            weight_bytes=own.weight_bytes,
            kv_bytes_per_token=own.kv_bytes_per_token,
        )
        self._truth: list[int] = []
        self._n = 0  # context length
        self._step = Step(0, False)  # of the last proposal
        self._next: Step | None = None  # decided ahead, for the branches of the last proposal
        self._proposal = Proposal(tokens=())
        self._inner_drafted = False

    def script(self, truth: list[int]) -> None:
        """The whole text's token ids, prompt included."""
        self._truth = list(truth)

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._n, self._next = len(tokens), None
        if self._inner:
            self._inner.begin(tokens, features_NF, first)

    def draft(self, draft_len: int) -> Proposal:
        self._draft_inner(draft_len)
        self._step, self._next = self._next or self._plan.next(draft_len), None
        self._proposal = self._propose(self._step, self._n, draft_len)
        return self._proposal

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        self._draft_inner(draft_len)
        if self._inner:
            self._inner.prepare(fan_out, draft_len, clock, arrived)
        self._next = self._next or self._plan.next(draft_len)
        branches = []
        for accepted_len, width in enumerate(fan_out[: len(self._proposal.tokens) + 1]):
            true = self._true(self._n + accepted_len)
            right = accepted_len == self._step.accepted and self._step.covered
            first = [true] if right else [(true + 2) % self._vocab]
            bonuses = first + [(true + 3 + rank) % self._vocab for rank in range(1, width)]
            for rank, bonus in enumerate(bonuses[:width], start=1):
                proposal = self._propose(self._next, self._n + accepted_len + 1, draft_len)
                branches.append(
                    Prepared(
                        accepted_len=accepted_len,
                        bonus=bonus,
                        rank=rank,
                        probability=None,
                        proposal=proposal,
                        ready_at=clock(),
                    )
                )
        return branches

    def commit(self, outcome: Outcome) -> None:
        self._n += outcome.accepted_len + 1
        self._proposal = Proposal(tokens=())
        if self._inner:
            self._inner.commit(outcome)
            self._inner_drafted = False

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        self.commit(outcome)
        assert branch.proposal is not None
        assert self._next is not None
        self._step, self._next, self._proposal = self._next, None, branch.proposal

    def take_work(self) -> Work:
        return self._inner.take_work() if self._inner else Work()

    def _draft_inner(self, draft_len: int) -> None:
        if self._inner and not self._inner_drafted:
            self._inner.draft(draft_len)
            self._inner_drafted = True

    def _true(self, position: int) -> int:
        return self._truth[position] if position < len(self._truth) else 0

    def _propose(self, step: Step, position: int, draft_len: int) -> Proposal:
        """`step.accepted` true tokens, then one that is wrong, then true ones again (which cannot be reached)."""
        tokens = [self._true(position + i) for i in range(draft_len)]
        if step.accepted < draft_len:
            tokens[step.accepted] = (tokens[step.accepted] + 1) % self._vocab
        return Proposal(tokens=tuple(tokens))
