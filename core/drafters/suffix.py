"""Suffix drafter: the longest suffix that the text has had before, and what followed it most often.

Source: Oliaro et al. 2024, "SuffixDecoding: Extreme Speculative Decoding for Emerging AI Applications".
"""

from __future__ import annotations

from collections.abc import Sequence

from specmon.core.drafters.base import Proposal
from specmon.core.drafters.suffix_tree import Match, SuffixTree
from specmon.core.drafters.text_lookup import TextDrafter

#: A draft ends before the token with which it would be right less often than this.
LEAST_CHANCE = 0.2


class SuffixDrafter(TextDrafter):
    """Looks in prompt, generated text and earlier turns; drafts further where the match is long and its followers agree."""

    def __init__(self) -> None:
        super().__init__(kind="suffix", label="suffix tree")
        self._tree = SuffixTree()

    def match(self, ahead: Sequence[int] = ()) -> Match | None:
        """Of the context with `ahead` behind it."""
        return self._tree.match(ahead)

    def _clear(self) -> None:
        self._tree = SuffixTree()

    def _index(self, new: Sequence[int]) -> None:
        for token in new:
            self._tree.add(token)

    def _followers(self, ahead: Sequence[int], count: int) -> list[tuple[int, float | None]]:
        match = self.match(ahead)
        if match is None:
            return []
        return [(token, match.probability(times)) for token, times in match.followers[:count]]

    def _continue(self, ahead: Sequence[int], count: int) -> Proposal:
        out: list[int] = []
        probs: list[float] = []
        chance = 1.0
        while len(out) < count and (match := self.match([*ahead, *out])):
            token, times = match.followers[0]
            chance *= match.probability(times)
            if chance < LEAST_CHANCE:
                break
            out.append(token)
            probs.append(match.probability(times))
        return Proposal(tokens=tuple(out), probs=tuple(probs))
