"""Chain drafting with a model: K greedy steps, and branches as one batch over the shared prefix.

The model behind it (an independent draft model or an EAGLE-3 head) is a `Stepper`. Its KV main line holds the confirmed
context and the last proposal; branches write to scratch slots after it and are moved down when adopted, so a rejection
only moves a cursor and a hit copies at most K slots.

A proposal d_1 … d_K takes K passes, the first of which feeds what was confirmed: one piece of work for the stepper. In SD
an accepted d_K is fed with the bonus, by the next draft. SSD needs the pass that feeds d_K, whose logits guess the bonus
after K acceptances: it is the first thing `prepare` does, while the target verifies.
Shapes: R rows, V vocabulary, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specmon.core.drafters.base import Arrived, Outcome, Prepared, Proposal, Work
from specmon.core.drafters.branches import BranchBatch, Guess, likely_outcomes, picked
from specmon.core.drafters.line import Again, Line, Lines, Stepper


class ChainDrafter:
    """Greedy chain drafts and SSD branches with a `Stepper`.

    Args:
        branches: drafts keep what branches start from; without it `prepare` raises ValueError.
    """

    def __init__(self, stepper: Stepper, *, branches: bool = True) -> None:
        self.stepper = stepper
        self._branches = branches
        self.info = stepper.info
        self._context: list[int] = []
        self._valid = 0  # positions below this are fed from confirmed tokens (and real features)
        self._features: Tensor | None = None  # real features from position _valid - lag on, not fed yet
        self._line = Line()
        self._batch: BranchBatch | None = None
        self._work = Work()

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        unfed, unfed_from = self._features, self._valid - self.stepper.lag
        same = _common_prefix(self._context[: self._valid], tokens)
        self._valid = max(min(same, len(tokens) - 1), self.stepper.lag)
        self._context = list(tokens)
        self._line, self._batch = Line(), None
        self._features = None
        if features_NF is not None:
            self._features = self._join_features(unfed, unfed_from, features_NF, first)
        self.catch_up()

    def draft(self, draft_len: int) -> Proposal:
        tokens, features = self._unfed()
        first, self._valid = self._valid, len(self._context)
        line = self.stepper.draft(tokens, first, features, draft_len, guesses=self._branches)
        after_first = sum(self._valid + i - self.stepper.lag for i in range(1, draft_len))
        self._count(max(draft_len, 1), self._valid + after_first, launches=line.launches, ran=line.ran)
        self._line, self._batch = line, None
        return line.proposal()

    def prepare(
        self,
        fan_out: tuple[int, ...],
        draft_len: int,
        clock: Callable[[], int],
        arrived: Arrived,
        rename: Callable[[Guess], Guess] | None = None,
    ) -> list[Prepared]:
        """As `Drafter.prepare`. `rename`: the outcome a branch is for, where that is not what was guessed."""
        if not self._branches:
            raise ValueError("this drafter keeps nothing to start branches from")
        line, n_context = self._line, len(self._context)
        if self.stepper.one_piece and arrived() is not None:
            return []
        again = self._to_feed_again()
        widths = fan_out[: len(line.tokens) + 1]
        if line.fed < len(line.tokens):
            self._count(
                1, n_context + len(line.tokens) - self.stepper.lag, launches=0
            )  # those of finding likely tokens
        count, whole = max(widths) + 1, None
        if self.stepper.one_piece:
            picks = picked(line, widths, n_context=n_context, lag=self.stepper.lag, draft_len=draft_len)
            whole = self.stepper.likely_branches(line, n_context, count, picks, draft_len, again)
        if whole is None and again is not None:
            self._feed_again(again)
        likely, lines = whole or (self.stepper.likely(line, n_context, count), None)
        self._work += Work(launches=likely.launches, ran=likely.ran)
        if lines is None and arrived() is not None:
            return []
        guesses = likely_outcomes(likely, line, widths)
        if rename is not None:
            guesses = [rename(guess) for guess in guesses]
        return self._branches_for(guesses, lines, draft_len, clock, arrived)

    def _to_feed_again(self) -> Again | None:
        """What an adopted branch was drafted for from predicted features, now that there are real ones."""
        if self._valid == len(self._context):
            return None
        tokens, features = self._unfed()
        assert features is not None
        first, self._valid = self._valid, len(self._context)
        self._count(1, self._valid, launches=0)
        return Again(tokens=tokens, first=first, features_RF=features)

    def _feed_again(self, again: Again) -> None:
        fed = self.stepper.draft(again.tokens, again.first, again.features_RF, 0, guesses=True)
        self._line.logits[0], self._line.carries[0] = fed.logits[0], fed.carries[0]
        self._work += Work(launches=fed.launches)

    def _branches_for(
        self,
        guesses: list[Guess],
        lines: Lines | None,
        draft_len: int,
        clock: Callable[[], int],
        arrived: Arrived,
    ) -> list[Prepared]:
        """A branch for each guess, of different (accepted_len, bonus). `lines`: where they are drafted already."""
        if not guesses:
            return []
        batch = BranchBatch(
            self.stepper, self._line, guesses, n_context=len(self._context), draft_len=draft_len
        )
        whole = batch.at_once(draft_len, lines)  # to its end, whatever arrives meanwhile
        for drafting in whole or ():
            self._count(*drafting)
        finished = whole is not None or self._step_branches(batch, draft_len, arrived)
        ready_at = clock()
        proposals = batch.proposals() if finished else {}
        self._batch = batch
        return [
            Prepared(
                accepted_len=g.accepted_len,
                bonus=g.bonus,
                rank=g.rank,
                probability=g.probability,
                proposal=proposals.get(g.key),
                ready_at=ready_at if g.key in proposals else None,
            )
            for g in guesses
        ]

    def catch_up(self) -> None:
        """Take in what was confirmed while another drafter proposed; the last token's turn comes with the next draft."""
        if self._valid + 1 < len(self._context):
            self._take_in(len(self._context) - 1)

    def stand_for(self, tokens: tuple[int, ...]) -> None:
        """Let the last proposal be `tokens`, as many as were drafted; its slots and logits stay those of its own."""
        self._line.tokens = list(tokens)

    def commit(self, outcome: Outcome) -> None:
        self._confirm(outcome)
        self._line, self._batch = Line(), None

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        assert self._batch is not None
        line, slots = self._batch.adopted(branch.key)
        first = len(self._context) + outcome.accepted_len - self.stepper.lag
        self._confirm(outcome)
        if not self.stepper.corrects:
            self._valid = len(self._context)
        self._work += Work(launches=self.stepper.move(slots, first))
        self._line, self._batch = line, None

    def take_work(self) -> Work:
        work, self._work = self._work, Work()
        return work

    def _join_features(self, unfed: Tensor | None, unfed_from: int, new: Tensor, first: int) -> Tensor:
        """Features from the first slot that is to be fed: those the last turn left unfed, then the new ones."""
        start = self._valid - self.stepper.lag
        if first <= start:
            return new[start - first :]
        if unfed is None or unfed_from != start or len(unfed) < first - start:
            raise ValueError(f"features start at {first}, but positions from {start} lack theirs")
        return torch.cat([unfed[: first - start], new])

    # --- one line ----------------------------------------------------------------------------------------------

    def _confirm(self, outcome: Outcome) -> None:
        """The accepted tokens and the bonus join the context; accepted tokens keep their slots where they are good."""
        if not self.stepper.corrects and self._valid == len(self._context):
            fed = self._line.tokens[: self._line.fed]
            self._valid += _common_prefix(fed, list(outcome.accepted))
        self._context += [*outcome.accepted, outcome.bonus]
        new = outcome.features_AF
        if new is not None:
            left = self._features
            self._features = new if left is None or not len(left) else torch.cat([left, new])

    def _take_in(self, end: int) -> None:
        """Take in the confirmed tokens that have no good slots yet, up to position `end`."""
        tokens, features = self._unfed(end)
        self.stepper.take_in(tokens, self._valid, features)
        self._valid += len(tokens)
        self._count(1, self._valid)

    def _unfed(self, end: int | None = None) -> tuple[list[int], Tensor | None]:
        """The confirmed tokens that have no good slots yet, up to position `end`, and the features they are fed with."""
        tokens = self._context[self._valid : end]
        features = None
        if self._features is not None:
            features, self._features = self._features[: len(tokens)], self._features[len(tokens) :]
        return tokens, features

    def _count(
        self,
        passes: int,
        kv_positions: int,
        launches: int | None = None,
        ran: tuple[int, int] | None = None,
    ) -> None:
        """Passes that read so many KV positions in all."""
        self._work += Work(
            forwards=passes,
            weight_bytes=passes * self.info.weight_bytes,
            kv_bytes=kv_positions * self.info.kv_bytes_per_token,
            launches=launches,
            ran=ran,
        )

    def _step_branches(self, batch: BranchBatch, draft_len: int, arrived: Arrived) -> bool:
        """Draft branches step by step, the outcome's alone once it has arrived; False where there is none for it."""
        outcome: Outcome | None = None
        for step in range(draft_len):
            outcome = outcome or arrived()
            if outcome is not None and not batch.keep_only(outcome.key):
                return False
            self._count(1, batch.step(step))
        return True


def _common_prefix(a: list[int], b: list[int]) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
