"""A proposal while it is drafted, and the model that drafts it. Shapes: R rows, V vocabulary, D hidden size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from specmon.core.drafters.base import DrafterInfo, Proposal
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import BranchStart, Pick, TreeOut
from specmon.core.models.placement import Placement, Rows
from specmon.kernels.head.reference import top_rows


class Stepper(Protocol):
    """A model that is fed tokens and says what may come next.

    The token at position p has slot p - `lag`: an EAGLE-3 head pairs it with the feature at p-1 (lag 1, and token 0 has no
    slot). `corrects`: confirmed tokens must be fed again once the target's features are known. `one_piece`: branches are
    best drafted together with finding what they begin with; else step by step, so that an early outcome can end it.
    A carry is what one step hands to the next: EAGLE's hidden state [R, D], None for a draft model.
    """

    info: DrafterInfo
    kv: KvCache
    lag: int
    corrects: bool

    @property
    def one_piece(self) -> bool: ...

    def take_in(self, tokens: list[int], first: int, features_ND: Tensor | None) -> None:
        """Append confirmed tokens at positions first … and wait until they are in the KV cache."""
        ...

    def draft(
        self, tokens: list[int], first: int, features_ND: Tensor | None, count: int, *, guesses: bool
    ) -> Line:
        """Append confirmed tokens as `take_in` does and propose `count` after them, each but the last fed.

        `guesses`: the line must hold the logits that branches start from.
        """
        ...

    def tree(
        self, tokens: list[int], first: int, features_ND: Tensor | None, depth: int, width: int
    ) -> TreeOut | None:
        """Append up to 16 confirmed tokens and draft a tree after them in one piece; None where trees go level by level.

        `depth` levels of `width` nodes, as `Passes.tree` drafts them.
        """
        ...

    def step(
        self, ids_R: Tensor, carry_RD: Tensor | None, placement: Placement
    ) -> tuple[Tensor, Tensor | None]:
        """Feed one proposed token in each of R rows; logits [R, V] and carries [R, D]."""
        ...

    def likely(self, line: Line, n_context: int, count: int) -> Likely:
        """The `count` likeliest tokens after each place of a line proposed after `n_context` tokens.

        Feeds its last token where that has no slot yet, whose logits are the last place's.
        """
        ...

    def branches(
        self, starts: list[BranchStart], carries: list[Tensor | None], count: int, batch: int
    ) -> Lines | None:
        """Draft `count` tokens along each of up to 16 branches in one piece; None where branches go step by step.

        `carries`: of the places that branches leave. `batch`: which of a round's it is.
        """
        ...

    def likely_branches(
        self, line: Line, n_context: int, count: int, picks: list[Pick], steps: int, again: Again | None
    ) -> tuple[Likely, Lines] | None:
        """Where `one_piece`: `likely`, and `branches` that begin with what it found; None where they do not fit in it.

        `again` is fed before, where the stepper corrects.
        """
        ...

    def move(self, slots: list[int], first: int) -> int | None:
        """Move a branch's slots to first, first + 1, … of the main line. Returns: launches, as in `Line`."""
        ...

    def token_ids(self, indices: Tensor) -> Tensor:
        """Target token ids of vocabulary indices (an EAGLE-3 head has a vocabulary of its own)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Again:
    """Confirmed tokens at positions first …, fed again as the target's features for them are known now.

    What comes after the last of them takes the first place of a line.
    """

    tokens: list[int]
    first: int
    features_RF: Tensor


@dataclass
class Line:
    """A proposal with what is needed to go on from any of its tokens.

    logits[i] and carries[i] are those after i proposed tokens were fed, and may be overwritten once another line is there;
    `fed` counts the proposed tokens with a slot;
    `launches`: the host's, where they are counted; `ran`: when its passes ran by the device's clock (ns), where they are
    stamped.
    """

    tokens: list[int] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    carries: list[Tensor | None] = field(default_factory=list)
    fed: int = 0
    source: Literal["real", "predicted"] | None = None
    launches: int | None = None
    ran: tuple[int, int] | None = None

    def proposal(self) -> Proposal:
        return Proposal(tokens=tuple(self.tokens), probs=tuple(self.probs), features=self.source)

    def propose(self, token: int, prob: float) -> None:
        self.tokens.append(token)
        self.probs.append(prob)


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Branches drafted in one piece; of most of them only the tokens are ever looked at.

    Shapes: tokens, probs [B][K]; logits_KBV [K, B, V], carries_KBD [K, B, D]. `launches` and `ran`: of all of them, as in
    `Line`.
    """

    tokens: list[list[int]]
    probs: list[list[float]]
    logits_KBV: Tensor
    carries_KBD: Tensor | None
    launches: int | None
    ran: tuple[int, int] | None = None

    @property
    def source(self) -> Literal["predicted"] | None:
        return None if self.carries_KBD is None else "predicted"

    def proposal(self, j: int) -> Proposal:
        return Proposal(tokens=tuple(self.tokens[j]), probs=tuple(self.probs[j]), features=self.source)

    def line(self, j: int) -> Line:
        """Branch j with what is needed to go on from it."""
        carries = self.carries_KBD
        count = len(self.tokens[j])
        return Line(
            tokens=list(self.tokens[j]),
            probs=list(self.probs[j]),
            logits=list(self.logits_KBV[:, j : j + 1]),
            carries=[None] * count if carries is None else list(carries[:, j : j + 1]),
            fed=count - 1,
            source=self.source,
        )


@dataclass(frozen=True, kw_only=True)
class Likely:
    """The likeliest target tokens after each place of a line, best first, and their probabilities alike; as in `Line`."""

    tokens: list[list[int]]
    probs: list[list[float]]
    launches: int | None
    ran: tuple[int, int] | None = None


def propose_by_steps(stepper: Stepper, line: Line, n_context: int, count: int) -> None:
    """Propose `count` tokens after `n_context` tokens with a `step` each; the line holds the logits after those."""
    for i in range(count):
        (token,), (prob,) = best_tokens(stepper, line.logits[-1], 1)
        line.propose(token[0], prob[0])
        if i + 1 < count:
            feed_last(stepper, line, n_context)


def feed_last(stepper: Stepper, line: Line, n_context: int) -> None:
    """Feed the line's last token, proposed after `n_context` tokens."""
    slot = n_context + len(line.tokens) - 1 - stepper.lag
    ids = torch.tensor(line.tokens[-1:], device=stepper.kv.keys(0).device)
    logits, carry = stepper.step(ids, line.carries[-1], Rows(slot, 1))
    line.logits.append(logits)
    line.carries.append(carry)
    line.fed += 1


def likely_by_steps(stepper: Stepper, line: Line, n_context: int, count: int) -> Likely:
    """`Stepper.likely` with a `step` for the token to feed."""
    if line.fed < len(line.tokens):
        feed_last(stepper, line, n_context)
    logits = torch.cat(line.logits)
    tokens, probs = best_tokens(stepper, logits, min(count, logits.shape[-1]))
    return Likely(tokens=tokens, probs=probs, launches=None)


def best_tokens(stepper: Stepper, logits_RV: Tensor, count: int) -> tuple[list[list[int]], list[list[float]]]:
    """The `count` likeliest tokens of each row, as target ids, and their probabilities; read from the device at once."""
    index, probs = top_rows(logits_RV, count)
    return stepper.token_ids(index).tolist(), probs.tolist()
