"""The likeliest tree under distributions that do not hang on each other: one for each position of a draft.

A node is a rank at each position down to its own; its chance is the product of their probabilities. A node is likelier than
its children and than the next rank beside it, so the best ones are found best first, from a heap that holds for each node
found its first child and the rank after it.
Source: Ringel et al. 2026, "DDTree".
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple


class Ranked(NamedTuple):
    """The token of `rank` (0 the likeliest) at position `depth` (0 the first) after `parent` (−1: the confirmed text)."""

    parent: int
    depth: int
    rank: int
    chance: float


def best_first(probs_KR: Sequence[Sequence[float]], n_nodes: int) -> list[Ranked]:
    """The `n_nodes` nodes of the greatest chances, level by level, or all where there are fewer.

    probs_KR: probabilities at each of K positions, falling.
    """
    found: list[Ranked] = []
    heap: list[tuple[float, int, Ranked]] = []
    serial = count()

    def push(parent: int, depth: int, rank: int) -> None:
        if depth < len(probs_KR) and rank < len(probs_KR[depth]):
            chance = (found[parent].chance if parent >= 0 else 1.0) * probs_KR[depth][rank]
            heappush(heap, (-chance, next(serial), Ranked(parent, depth, rank, chance)))

    push(-1, 0, 0)
    while heap and len(found) < n_nodes:
        *_, node = heappop(heap)
        found.append(node)
        push(len(found) - 1, node.depth + 1, 0)
        push(node.parent, node.depth, node.rank + 1)
    return _by_level(found)


def _by_level(found: list[Ranked]) -> list[Ranked]:
    order = sorted(range(len(found)), key=lambda i: found[i].depth)
    place = {i: at for at, i in enumerate(order)} | {-1: -1}
    return [Ranked(place[found[i].parent], *found[i][1:]) for i in order]
