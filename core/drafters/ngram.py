"""N-gram drafter (prompt lookup): what followed the text's last tokens the last times they occurred.

Source: Saxena 2023, "Prompt Lookup Decoding"; here the generated text is searched too, newest match first.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from specmon.core.drafters.base import Arrived, DrafterInfo, Outcome, Prepared, Proposal, Work


class NgramDrafter:
    """Looks up the longest suffix of `longest` … `shortest` tokens; no model, no weights.

    May propose fewer than K tokens, or none.
    """

    def __init__(self, *, longest: int = 4, shortest: int = 2) -> None:
        self.info = DrafterInfo(kind="ngram", label="n-gram")
        self._lengths = range(longest, shortest - 1, -1)
        self._context: list[int] = []
        self._proposal = Proposal(tokens=())
        # n-gram -> positions just after it, in order; indexed up to self._indexed tokens
        self._followers: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._context = list(tokens)
        self._followers.clear()
        self._indexed = 0
        self._index()

    def draft(self, draft_len: int) -> Proposal:
        self._proposal = Proposal(tokens=self._continue([], draft_len))
        return self._proposal

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        prepared = []
        drafted = self._proposal.tokens
        for accepted_len, width in enumerate(fan_out[: len(drafted) + 1]):
            prefix = list(drafted[:accepted_len])
            proposed = drafted[accepted_len] if accepted_len < len(drafted) else None
            guesses = [token for token in self._candidates(prefix) if token != proposed][:width]
            for rank, bonus in enumerate(guesses, start=1):
                tokens = self._continue([*prefix, bonus], draft_len)
                prepared.append(
                    Prepared(
                        accepted_len=accepted_len,
                        bonus=bonus,
                        rank=rank,
                        probability=None,
                        proposal=Proposal(tokens=tokens),
                        ready_at=clock(),
                    )
                )
        return prepared

    def commit(self, outcome: Outcome) -> None:
        self._context += [*outcome.accepted, outcome.bonus]
        self._proposal = Proposal(tokens=())
        self._index()

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        self.commit(outcome)
        assert branch.proposal is not None
        self._proposal = branch.proposal

    def take_work(self) -> Work:
        return Work()

    def _index(self) -> None:
        """Add the n-grams that end before each new position."""
        for position in range(max(self._indexed, 1), len(self._context)):
            for n in self._lengths:
                if n <= position:
                    key = tuple(self._context[position - n : position])
                    self._followers.setdefault(key, []).append(position)
        self._indexed = len(self._context)

    def _candidates(self, ahead: list[int]) -> list[int]:
        """Tokens that followed the longest known suffix of context + ahead, newest first, each once."""
        text = self._context[-max(self._lengths) :] + ahead
        for n in self._lengths:
            positions = self._followers.get(tuple(text[-n:])) if len(text) >= n else None
            if positions:
                return list(dict.fromkeys(self._context[p] for p in reversed(positions)))
        return []

    def _continue(self, ahead: list[int], count: int) -> tuple[int, ...]:
        """Up to `count` tokens after context + ahead, one look-up a token."""
        out: list[int] = []
        for _ in range(count):
            guesses = self._candidates([*ahead, *out])
            if not guesses:
                break
            out.append(guesses[0])
        return tuple(out)
