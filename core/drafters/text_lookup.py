"""Drafters that look up the text so far: no model, no weights. What they find there is all that differs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Tensor

from specmon.core.drafters.base import TO_COME, Arrived, DrafterInfo, Outcome, Prepared, Proposal, Work


class TextDrafter(ABC):
    """Follows the text and indexes what is new of it; may propose fewer than K tokens, or none.

    A turn that goes on with the text before it keeps its index, another starts anew.
    """

    def __init__(self, *, kind: str, label: str) -> None:
        self.info = DrafterInfo(kind=kind, label=label, may_fall_short=True)
        self._context: list[int] = []
        self._proposal = Proposal(tokens=())

    @abstractmethod
    def _clear(self) -> None:
        """Forget the whole index."""

    @abstractmethod
    def _index(self, new: Sequence[int]) -> None:
        """Index `new`, which ends the context now."""

    @abstractmethod
    def _followers(self, ahead: Sequence[int], count: int) -> list[tuple[int, float | None]]:
        """Up to `count` tokens that may follow context + ahead, likeliest first, with a probability where there is one."""

    @abstractmethod
    def _continue(self, ahead: Sequence[int], count: int) -> Proposal:
        """Up to `count` tokens after context + ahead."""

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        known = tokens[:-1] if tokens[-1] == TO_COME else tokens
        if known[: len(self._context)] != self._context:
            self._context = []
            self._clear()
        self._proposal = Proposal(tokens=())
        self._grow(known[len(self._context) :])

    def draft(self, draft_len: int) -> Proposal:
        self._proposal = self._continue([], draft_len)
        return self._proposal

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        prepared = []
        drafted = self._proposal.tokens
        for accepted_len, width in enumerate(fan_out[: len(drafted) + 1]):
            prefix, proposed = drafted[:accepted_len], drafted[accepted_len : accepted_len + 1]
            guesses = [guess for guess in self._followers(prefix, width + 1) if guess[0] not in proposed]
            prepared += [
                Prepared(
                    accepted_len=accepted_len,
                    bonus=bonus,
                    rank=rank,
                    probability=probability,
                    proposal=self._continue([*prefix, bonus], draft_len),
                    ready_at=clock(),
                )
                for rank, (bonus, probability) in enumerate(guesses[:width], start=1)
            ]
        return prepared

    def commit(self, outcome: Outcome) -> None:
        self._proposal = Proposal(tokens=())
        self._grow([*outcome.accepted, outcome.bonus])

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        self.commit(outcome)
        assert branch.proposal is not None
        self._proposal = branch.proposal

    def take_work(self) -> Work:
        return Work()

    def _grow(self, new: Sequence[int]) -> None:
        self._context += new
        self._index(new)
