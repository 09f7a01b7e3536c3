"""Counts of what was drafted, judged, kept, hit and missed, from which every acceptance figure follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from specmon.core.events import MissReason, Round


@dataclass(frozen=True, kw_only=True)
class PositionAcceptance:
    """Draft position `position` (from 1), in rounds: that drafted it, whose text reached it, that kept it.

    `unconditional` is accepted ÷ drafted, `conditional` accepted ÷ reached; None where nothing was counted.
    """

    position: int
    drafted: int
    reached: int
    accepted: int
    unconditional: float | None
    conditional: float | None


@dataclass(frozen=True, kw_only=True)
class HitsAfter:
    """Rounds that had branches and a successor and ended with `accepted_len`, and how many of them hit."""

    accepted_len: int
    hits: int
    rounds: int
    fan_out: int | None  # branches prepared for this accepted_len in the newest round

    @property
    def rate(self) -> float | None:
        """Hits ÷ rounds."""
        return ratio(self.hits, self.rounds)


def ratio(part: float, whole: float) -> float | None:
    """`part` ÷ `whole`, or None where there is nothing to divide by."""
    return part / whole if whole else None


def drafted_len(round_: Round) -> int:
    """Draft positions of a round: its tokens, or a tree's depth."""
    return len(round_.draft) if round_.parents is None else tree_depth(round_.parents)


def tree_depth(parents: tuple[int, ...]) -> int:
    """Depth of the deepest node, the root's children being at depth 1."""
    return max(node_depths(parents), default=0)


def node_depths(parents: Sequence[int]) -> list[int]:
    """Each node's depth, 1 for the root's children.

    A file may hold anything: a parent that does not come before its node counts as the root (-1).
    """
    depths: list[int] = []
    for node, parent in enumerate(parents):
        depths.append(depths[parent] + 1 if 0 <= parent < node else 1)
    return depths


def kept_len(round_: Round) -> int:
    """Accepted tokens that were also emitted; fewer than accepted_len only where generation stopped."""
    return min(round_.accepted_len, len(round_.emitted))


def had_branches(round_: Round) -> bool:
    """Whether branches were prepared for this round's outcome (a recording may have left them out)."""
    return bool(round_.branches) or round_.hit is not None or round_.miss in ("rank", "late")


class Acceptance:
    """Running counts over a turn's rounds; `add` costs the same however long the turn is."""

    def __init__(self) -> None:
        self.rounds = 0
        self.drafted_tokens = 0
        self.kept_tokens = 0
        self.hits = 0
        self.branch_rounds = 0
        self.misses: Counter[MissReason] = Counter()
        self.branches_prepared = 0
        self._drafted: Counter[int] = Counter()
        self._judged: Counter[int] = Counter()
        self._kept: Counter[int] = Counter()
        self._branch_rounds_after: Counter[int] = Counter()
        self._hits_after: Counter[int] = Counter()
        self._newest_with_branches: Round | None = None

    def add(self, round_: Round) -> None:
        """Count one round that was not discarded."""
        self.rounds += 1
        drafted, kept = drafted_len(round_), kept_len(round_)
        if drafted:
            self.drafted_tokens += drafted
            self.kept_tokens += kept
            self._drafted[drafted] += 1
            self._judged[min(len(round_.emitted), drafted)] += 1
            self._kept[kept] += 1
        if had_branches(round_):
            self._newest_with_branches = round_
            self.branches_prepared += len(round_.branches)
            self._add_branch_round(round_)

    def _add_branch_round(self, round_: Round) -> None:
        if round_.hit is not None:
            self.hits += 1
            self._hits_after[round_.accepted_len] += 1
        elif round_.miss is not None:
            self.misses[round_.miss] += 1
        else:
            return
        self.branch_rounds += 1
        self._branch_rounds_after[round_.accepted_len] += 1

    @property
    def chance(self) -> float | None:
        """How often a judged token is right: accepted ÷ reached, over all positions together."""
        reached = sum(n * judged for judged, n in self._judged.items())
        return ratio(self.kept_tokens, reached)

    def positions(self) -> list[PositionAcceptance]:
        """Acceptance by draft position, 1 to the longest draft; the accepted counts sum to `kept_tokens`."""
        longest = max(self._drafted, default=0)
        drafted, reached, accepted = (
            _at_least(counts, longest) for counts in (self._drafted, self._judged, self._kept)
        )
        return [
            PositionAcceptance(
                position=i + 1,
                drafted=drafted[i],
                reached=reached[i],
                accepted=accepted[i],
                unconditional=ratio(accepted[i], drafted[i]),
                conditional=ratio(accepted[i], reached[i]),
            )
            for i in range(longest)
        ]

    def hits_by_accepted_len(self) -> list[HitsAfter]:
        """Hit rate after each accepted_len seen or prepared for, in order."""
        fan_out = _newest_fan_out(self._newest_with_branches)
        return [
            HitsAfter(
                accepted_len=a,
                hits=self._hits_after[a],
                rounds=self._branch_rounds_after[a],
                fan_out=fan_out.get(a),
            )
            for a in sorted(set(self._branch_rounds_after) | set(fan_out))
        ]

    def tau_by_prefix(self) -> dict[int, float]:
        """Expected tokens per round had only the first k been drafted, k = 1 to the longest draft.

        1 + tokens kept up to k ÷ rounds, those of shorter drafts included; a longer draft than any seen is not guessed.
        """
        kept = accumulate(position.accepted for position in self.positions())
        return {k: 1.0 + total / self.rounds for k, total in enumerate(kept, start=1)}


def _at_least(counts: Counter[int], longest: int) -> list[int]:
    """Rounds whose count is at least 1, 2, … `longest`."""
    return list(accumulate(counts[i] for i in range(longest, 0, -1)))[::-1]


def _newest_fan_out(round_: Round | None) -> dict[int, int]:
    if round_ is None:
        return {}
    if round_.fan_out is not None:
        return dict(enumerate(round_.fan_out))
    return dict(Counter(branch.accepted_len for branch in round_.branches))
