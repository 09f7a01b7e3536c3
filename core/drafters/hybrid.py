"""Hybrid drafter: what the text had before where that is long and sure, else a model.

Source: Oliaro et al. 2024, "SuffixDecoding", section on hybrid use with model-based speculation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from msgspec import structs
from torch import Tensor

from specmon.core.drafters.base import Arrived, Outcome, Prepared, Proposal, Work
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.suffix import SuffixDrafter

#: The text drafts where a match is so long, and all K tokens behind it are right so likely.
LEAST_MATCH = 6
LEAST_CHANCE = 0.6


class HybridDrafter:
    """A suffix tree before a model. Either takes in what was emitted, whichever drafted it.

    Branches are made by what made the draft: of the text only those that it would draft from, so that otherwise the model
    does. While the target verifies a draft of the text, the model takes in what it has not fed yet.
    """

    def __init__(self, model: ChainDrafter) -> None:
        self._text, self._model = SuffixDrafter(), model
        self.info = replace(
            model.info, kind="hybrid", label=f"suffix tree + {model.info.label}", may_fall_short=True
        )
        self._from_text = False

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._text.begin(tokens, None, first)
        self._model.begin(tokens, features_NF, first)

    def draft(self, draft_len: int) -> Proposal:
        match, found = self._text.match(), self._text.draft(draft_len)
        self._from_text = match is not None and match.length >= LEAST_MATCH and _is_sure(found, draft_len)
        made = found if self._from_text else self._model.draft(draft_len)
        return structs.replace(made, drafter=self._maker)

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        if self._from_text:
            self._model.catch_up()
            prepared = self._text.prepare(fan_out, draft_len, clock, arrived)
            prepared = [b for b in prepared if b.proposal and _is_sure(b.proposal, draft_len)]
        else:
            prepared = self._model.prepare(fan_out, draft_len, clock, arrived)
        return [self._signed(branch) for branch in prepared]

    def commit(self, outcome: Outcome) -> None:
        self._text.commit(outcome)
        self._model.commit(outcome)

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        if self._from_text:
            self._text.adopt(outcome, branch)
            self._model.commit(outcome)
        else:
            self._text.commit(outcome)
            self._model.adopt(outcome, branch)

    def take_work(self) -> Work:
        return self._model.take_work()

    @property
    def _maker(self) -> str:
        return self._text.info.kind if self._from_text else self._model.info.kind

    def _signed(self, branch: Prepared) -> Prepared:
        proposal = branch.proposal
        if proposal is not None:
            proposal = structs.replace(proposal, drafter=self._maker)
        return structs.replace(branch, proposal=proposal)


def _is_sure(found: Proposal, draft_len: int) -> bool:
    return len(found.tokens) == draft_len and prod(found.probs) >= LEAST_CHANCE
