"""Scripted drafter: knows the true continuation and proposes it with a chosen accuracy.

For calibration on targets nothing accepts for, and to force every pattern of acceptance, hit and miss in tests. Always
labelled. What the target does with the proposal is real. With a model inside, so is the draft device's work: the model
drafts, prepares and adopts branches for the outcomes the script names, and only its tokens are replaced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import msgspec
from torch import Tensor

from specmon.core.drafters.base import Arrived, DrafterInfo, Outcome, Prepared, Proposal, Work
from specmon.core.drafters.branches import Guess
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.script_words import Coverage


@dataclass(frozen=True)
class Step:
    """What one draft is to be: its first `accepted` tokens right and the next wrong.

    `covered`: whether the bonus is among the guesses that branches are for, as the one of `rank`.
    """

    accepted: int
    covered: bool
    rank: int = 1


class Plan(Protocol):
    """Decides the draft of each round."""

    def step(self, round_index: int, draft_len: int) -> Step:
        """Of a draft of `draft_len` tokens; the same whenever the round is asked for, but for what is cut off it."""
        ...


class PatternPlan:
    """Repeats a list of steps (tests force every pattern with it)."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)

    def step(self, round_index: int, draft_len: int) -> Step:
        step = self._steps[round_index % len(self._steps)]
        return replace(step, accepted=min(step.accepted, draft_len))


class AccuracyPlan:
    """Each position is right with probability `alpha`; the bonus is a guess of the draft as `coverage` says.

    Draws depend on the seed and the round alone.
    """

    def __init__(self, alpha: float, *, coverage: Coverage | None = None, seed: int = 0) -> None:
        self._alpha, self._coverage, self._seed = alpha, coverage or Coverage(), seed
        self.step = lru_cache(maxsize=64)(
            self._step
        )  # asked for several times a round, and a seed takes its time

    def _step(self, round_index: int, draft_len: int) -> Step:
        draws = random.Random(f"{self._seed} {round_index}")
        rank = self._coverage.rank(draws.random())
        accepted = 0
        while accepted < draft_len and draws.random() < self._alpha:
            accepted += 1
        return Step(accepted, covered=False) if rank is None else Step(accepted, covered=True, rank=rank)


class ScriptedDrafter:
    """Proposes `truth` (set with `script`) as its plan says.

    Args:
        vocab_size: wrong tokens are the true one plus one or more, modulo this.
        inner: a model that works beside the script: its tokens are replaced, its work is done.
    """

    def __init__(self, plan: Plan, vocab_size: int, *, label: str, inner: ChainDrafter | None = None) -> None:
        self._plan, self._vocab, self._inner = plan, vocab_size, inner
        self.info = (
            replace(inner.info, kind="scripted", label=label)
            if inner
            else DrafterInfo(kind="scripted", label=label)
        )
        self._truth: list[int] = []
        self._n = 0  # context length
        self._round = 0  # of this drafter's life: what the plan is asked for

    def script(self, truth: list[int]) -> None:
        """The whole text's token ids, prompt included."""
        self._truth = list(truth)

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._n = len(tokens)
        if self._inner:
            self._inner.begin(tokens, features_NF, first)

    def draft(self, draft_len: int) -> Proposal:
        tokens = self._tokens(self._plan.step(self._round, draft_len), self._n, draft_len)
        if self._inner is None:
            return Proposal(tokens=tokens)
        theirs = self._inner.draft(draft_len)
        self._inner.stand_for(tokens)
        return Proposal(tokens=tokens, features=theirs.features)

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        step = self._plan.step(self._round, len(fan_out) - 1)
        if self._inner is None:
            branches = self._unworked(step, fan_out, clock)
        else:
            branches = self._inner.prepare(fan_out, draft_len, clock, arrived, rename=self._renaming(step))
        after = self._plan.step(self._round + 1, draft_len)
        tokens = [self._tokens(after, self._n + a + 1, draft_len) for a in range(len(fan_out))]
        return [_filled(branch, tokens[branch.accepted_len]) for branch in branches]

    def commit(self, outcome: Outcome) -> None:
        if self._inner:
            self._inner.commit(outcome)
        self._go_on(outcome)

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        assert branch.proposal is not None
        if self._inner:
            self._inner.adopt(outcome, branch)
            self._inner.stand_for(branch.proposal.tokens)
        self._go_on(outcome)

    def take_work(self) -> Work:
        return self._inner.take_work() if self._inner else Work()

    def _go_on(self, outcome: Outcome) -> None:
        self._n += outcome.accepted_len + 1
        self._round += 1

    def _true(self, position: int) -> int:
        return self._truth[position] if position < len(self._truth) else 0

    def _tokens(self, step: Step, position: int, draft_len: int) -> tuple[int, ...]:
        """`step.accepted` true tokens, then one that is wrong, then true ones again (which cannot be reached)."""
        tokens = [self._true(position + i) for i in range(draft_len)]
        if step.accepted < draft_len:
            tokens[step.accepted] = (tokens[step.accepted] + 1) % self._vocab
        return tuple(tokens)

    def _bonus(self, step: Step, accepted_len: int, rank: int) -> int:
        """The guess of `rank`: the true bonus where the step says so, else neither that nor what is proposed there."""
        true = self._true(self._n + accepted_len)
        if step.covered and (accepted_len, rank) == (step.accepted, step.rank):
            return true
        return (true + 1 + rank) % self._vocab

    def _renaming(self, step: Step) -> Callable[[Guess], Guess]:
        def rename(guess: Guess) -> Guess:
            bonus = self._bonus(step, guess.accepted_len, guess.rank)
            return Guess(guess.accepted_len, bonus, guess.rank, guess.probability)

        return rename

    def _unworked(self, step: Step, fan_out: tuple[int, ...], clock: Callable[[], int]) -> list[Prepared]:
        """Branches that no model works for."""
        return [
            Prepared(
                accepted_len=accepted_len,
                bonus=self._bonus(step, accepted_len, rank),
                rank=rank,
                probability=None,
                proposal=Proposal(tokens=()),
                ready_at=clock(),
            )
            for accepted_len, width in enumerate(fan_out)
            for rank in range(1, width + 1)
        ]


def _filled(branch: Prepared, tokens: tuple[int, ...]) -> Prepared:
    """The branch with the script's tokens; it stays without a proposal where its work was cut short."""
    proposal = branch.proposal
    if proposal is not None:
        proposal = Proposal(tokens=tokens, features=proposal.features)
    return msgspec.structs.replace(branch, probability=None, proposal=proposal)
