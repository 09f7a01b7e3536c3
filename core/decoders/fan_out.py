"""How many branches each outcome of a round gets: given, or chosen from what outcomes and ranks did so far.

An outcome is (accepted_len a, rank r of the bonus among the draft's guesses after a acceptances, the proposed token left
out). A branch for it hits with P(a) · P(r | a). Under a budget each next branch goes to the outcome likeliest to hit among
those next in rank, which is the best vector wherever each further rank is no likelier than the one before.

P(a) are counts with a prior. P(r | a) is seen only as far as branches reached: a bonus that was none of w guesses had a
rank above w. So what is counted is, for each a and r, how often the rank was r among the rounds in which it was r or more
and r had a branch (the hazard); P(r | a) = h_r · Π_{j<r} (1 − h_j).
Source: fan-out over outcomes is SSD's (Kumar et al. 2026); the estimate from censored ranks is Kaplan and Meier's (1958).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

DEFAULT_BUDGET = 16
#: Branches of a round at most, auto or given: 16 passes of 16 rows. Each takes draft_len slots of the draft's KV cache.
MAX_BRANCHES = 256

_MEMORY = 0.995  # what a count is worth a round later: some 200 rounds are remembered
_PRIOR_ROUNDS = 8.0
_PRIOR_ACCEPT = 0.6  # of each drafted token, before anything was seen
_PRIOR_TRIALS = 4.0
_PRIOR_HAZARD = 0.5  # of rank 1; 1/r of it at rank r


class FanOut(Protocol):
    """Chooses a round's branches for each accepted_len, and learns what became of them."""

    def widths(self) -> tuple[int, ...]:
        """Branches for accepted_len 0 … K of the next round."""
        ...

    def saw(self, accepted_len: int, width: int, rank: int | None) -> None:
        """A round came to `accepted_len`, which had `width` branches; the bonus was the one of `rank`, None: of none.

        Branches that were not finished in time are none.
        """
        ...


class Given:
    """The same branches every round."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._widths = widths

    def widths(self) -> tuple[int, ...]:
        return self._widths

    def saw(self, accepted_len: int, width: int, rank: int | None) -> None:
        pass


class Learned:
    """At most `budget` branches a round for drafts of `draft_len` tokens, where they have hit before."""

    def __init__(self, draft_len: int, budget: int = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._prior = _prior(draft_len)
        self._outcomes: defaultdict[int, float] = defaultdict(float)
        self._hits: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._trials: defaultdict[tuple[int, int], float] = defaultdict(float)

    def widths(self) -> tuple[int, ...]:
        counts = [_PRIOR_ROUNDS * p + self._outcomes[a] for a, p in enumerate(self._prior)]
        return share_out(
            self._budget, [(count / sum(counts), self._hazards(a)) for a, count in enumerate(counts)]
        )

    def saw(self, accepted_len: int, width: int, rank: int | None) -> None:
        for counts in (self._outcomes, self._hits, self._trials):
            _fade(counts)
        self._outcomes[accepted_len] += 1
        for r in range(1, (rank or width) + 1):
            self._trials[accepted_len, r] += 1
        if rank is not None:
            self._hits[accepted_len, rank] += 1

    def _hazards(self, accepted_len: int) -> Callable[[int], float]:
        """h_r of `accepted_len`: what was counted, and a prior worth a few rounds."""

        def hazard(rank: int) -> float:
            key = accepted_len, rank
            hits = _PRIOR_TRIALS * _PRIOR_HAZARD / rank + self._hits.get(key, 0.0)
            return hits / (_PRIOR_TRIALS + self._trials.get(key, 0.0))

        return hazard


def share_out(budget: int, outcomes: Sequence[tuple[float, Callable[[int], float]]]) -> tuple[int, ...]:
    """Branches for each outcome: `budget` in all, each to where the next one is likeliest to hit.

    Args:
        outcomes: of each accepted_len its probability, and its hazard by rank (1, 2, …), within 0 … 1.
    """
    widths = [0] * len(outcomes)
    left = [p for p, _ in outcomes]  # P(a and a rank above the width given so far)
    queue = [(-left[a] * hazard(1), a) for a, (_, hazard) in enumerate(outcomes)]
    heapq.heapify(queue)
    for _ in range(budget):
        gain, a = heapq.heappop(queue)
        widths[a] += 1
        left[a] += gain
        heapq.heappush(queue, (-max(left[a], 0.0) * outcomes[a][1](widths[a] + 1), a))
    return tuple(widths)


def _fade(counts: dict[Any, float]) -> None:
    """What was counted is worth a little less a round later."""
    for key in counts:
        counts[key] *= _MEMORY


def _prior(draft_len: int) -> list[float]:
    """P(accepted_len = 0 … K) where each drafted token is accepted with the prior's chance."""
    stops = [_PRIOR_ACCEPT**a * (1 - _PRIOR_ACCEPT) for a in range(draft_len)]
    return [*stops, _PRIOR_ACCEPT**draft_len]
