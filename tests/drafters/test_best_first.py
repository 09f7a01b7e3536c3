"""The tree found best first is the best of all trees."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
import torch

from specmon.core.drafters.best_first import Ranked, best_first

DISTRIBUTIONS = {
    "sure": [[0.9, 0.06, 0.04], [0.8, 0.15, 0.05], [0.97, 0.02, 0.01], [0.6, 0.3, 0.1]],
    "flat": [[0.34, 0.33, 0.33], [0.4, 0.35, 0.25], [0.5, 0.3, 0.2], [0.36, 0.33, 0.31]],
    "level": [[0.5, 0.5], [0.25, 0.25, 0.25, 0.25], [1.0, 0.0]],
    "one": [[0.7, 0.2, 0.1]],
}


def random_probs(seed: int) -> list[list[float]]:
    logits = 3 * torch.randn(5, 8, generator=torch.Generator().manual_seed(seed))
    return [sorted(row, reverse=True) for row in logits.double().softmax(dim=-1).tolist()]


def all_chances(probs: list[list[float]]) -> list[float]:
    """Of every node there is, falling."""
    nodes = (
        ranks
        for depth in range(1, len(probs) + 1)
        for ranks in product(*(range(len(row)) for row in probs[:depth]))
    )
    return sorted(
        (prod(row[r] for row, r in zip(probs, ranks, strict=False)) for ranks in nodes), reverse=True
    )


def path(nodes: list[Ranked], i: int) -> list[int]:
    """Ranks from the first position down to node i."""
    node = nodes[i]
    return [*(path(nodes, node.parent) if node.parent >= 0 else []), node.rank]


@pytest.mark.parametrize("n_nodes", [1, 2, 7, 15])
@pytest.mark.parametrize("probs", [*DISTRIBUTIONS.values(), *map(random_probs, range(6))])
def test_nodes_are_those_of_the_greatest_chances(probs: list[list[float]], n_nodes: int) -> None:
    nodes = best_first(probs, n_nodes)

    best = all_chances(probs)[:n_nodes]
    assert sorted((node.chance for node in nodes), reverse=True) == pytest.approx(best)
    paths = [path(nodes, i) for i in range(len(nodes))]
    assert len({tuple(ranks) for ranks in paths}) == len(nodes) == len(best)
    for node, ranks in zip(nodes, paths, strict=True):
        assert len(ranks) == node.depth + 1
        assert node.chance == pytest.approx(prod(probs[i][rank] for i, rank in enumerate(ranks)))


def test_levels_follow_each_other_and_parents_come_first() -> None:
    nodes = best_first(random_probs(1), 15)

    assert [node.depth for node in nodes] == sorted(node.depth for node in nodes)
    assert all(node.parent < i for i, node in enumerate(nodes))


def test_sure_distributions_give_a_chain() -> None:
    nodes = best_first([[0.99, 0.01]] * 4, 4)

    assert [(node.parent, node.rank) for node in nodes] == [(-1, 0), (0, 0), (1, 0), (2, 0)]


def test_fewer_nodes_than_asked_for_are_all_there_are() -> None:
    assert len(best_first([[0.6, 0.4], [1.0]], 15)) == 4
    assert best_first([], 15) == []
