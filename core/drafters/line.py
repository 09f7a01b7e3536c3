"""A proposal while it is drafted, and the model that drafts it. Shapes: R rows, V vocabulary, D hidden size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from specmon.core.drafters.base import DrafterInfo, Proposal
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Placement


class Stepper(Protocol):
    """A model that is fed tokens and says what may come next.

    The token at position p has slot p - `lag`: an EAGLE-3 head pairs it with the feature at p-1 (lag 1, and token 0 has no
    slot). `corrects`: confirmed tokens must be fed again once the target's features are known.
    A carry is what one step hands to the next: EAGLE's hidden state [R, D], None for a draft model.
    """

    info: DrafterInfo
    kv: KvCache
    lag: int
    corrects: bool

    def feed(self, tokens: list[int], first: int, features_ND: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Append confirmed tokens at positions first …; logits [1, V] after the last one, and its carry [1, D]."""
        ...

    def step(
        self, ids_R: Tensor, carry_RD: Tensor | None, placement: Placement
    ) -> tuple[Tensor, Tensor | None]:
        """Feed one proposed token in each of R rows; logits [R, V] and carries [R, D]."""
        ...

    def token_ids(self, indices: Tensor) -> Tensor:
        """Target token ids of vocabulary indices (an EAGLE-3 head has a vocabulary of its own)."""
        ...


@dataclass
class Line:
    """A proposal with what is needed to go on from any of its tokens.

    logits[i] and carries[i] are those after i proposed tokens were fed; `fed` counts the proposed tokens with a slot.
    """

    tokens: list[int] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    carries: list[Tensor | None] = field(default_factory=list)
    fed: int = 0
    source: Literal["real", "predicted"] | None = None

    def proposal(self) -> Proposal:
        return Proposal(tokens=tuple(self.tokens), probs=tuple(self.probs), features=self.source)

    def propose(self, token: int, prob: float) -> None:
        self.tokens.append(token)
        self.probs.append(prob)


def best_tokens(stepper: Stepper, logits_RV: Tensor, count: int) -> tuple[list[list[int]], list[list[float]]]:
    """The `count` likeliest tokens of each row, as target ids, and their probabilities; read from the device at once."""
    logits_RV = logits_RV.float()
    top, index = logits_RV.max(dim=-1, keepdim=True) if count == 1 else logits_RV.topk(count, dim=-1)
    probs = torch.exp(top - torch.logsumexp(logits_RV, dim=-1, keepdim=True))
    return stepper.token_ids(index).tolist(), probs.tolist()
