"""Where each token and each draft came from, as the text panel and the rounds list mark it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from specmon.core.events import Branch, MissReason, Round

Fate = Literal["first", "accepted", "bonus"]


class TokenFate(NamedTuple):
    """One emitted token: its text ("" while a character is incomplete), how it came about and in which round.

    `round_index` is a position in the turn's rounds, -1 for token one; `branch_hit` says that the round's
    draft was a branch prepared ahead. Text held back until the end follows as one more entry with the last
    token's fate.
    """

    text: str
    fate: Fate
    round_index: int
    branch_hit: bool


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a round's draft came about.

    hit: `branch` of the round before, the `ordinal`-th (from 1) of those prepared for its accepted_len.
    miss: the round before had none, for `reason`; `drafter` then drafted from scratch.
    draft: drafted in the round itself. none: nothing was drafted.
    """

    kind: Literal["hit", "miss", "draft", "none"]
    drafter: str | None = None
    branch: Branch | None = None  # None on a hit means that the recording left branches out
    accepted_len: int | None = None  # of the round before, on a hit or miss
    ordinal: int | None = None
    reason: MissReason | None = None


def origin_of(before: Round | None, round_: Round) -> Origin:
    """How the draft of `round_` came about, given the round before it in the turn."""
    if before is not None and before.hit is not None:
        return _hit(before, before.hit, round_)
    if before is not None and before.miss is not None:
        drafter = before.fallback or round_.drafter
        return Origin(kind="miss", drafter=drafter, accepted_len=before.accepted_len, reason=before.miss)
    return Origin(kind="draft" if round_.draft else "none", drafter=round_.drafter)


def _hit(before: Round, hit: int, round_: Round) -> Origin:
    branch = before.branches[hit] if 0 <= hit < len(before.branches) else None
    ordinal = None
    if branch is not None:
        ordinal = sum(b.accepted_len == branch.accepted_len for b in before.branches[: hit + 1])
    return Origin(
        kind="hit", drafter=round_.drafter, branch=branch, accepted_len=before.accepted_len, ordinal=ordinal
    )


def round_fates(before: Round | None, round_: Round, round_index: int) -> list[TokenFate]:
    """Fates of the tokens a round emitted."""
    hit = before is not None and before.hit is not None
    texts = (*round_.text, *("",) * (len(round_.emitted) - len(round_.text)))
    return [
        TokenFate(text, "accepted" if i < round_.accepted_len else "bonus", round_index, hit)
        for i, text in enumerate(texts)
    ]
