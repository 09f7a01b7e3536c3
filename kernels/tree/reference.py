"""A level of a drafted tree from the likely tokens after each node of the level before it.

A node's chance is the product of the probabilities along its path. Of all the tokens after a level's nodes those of the
greatest chances are the next level's.
Source: Cai et al. 2024 (Medusa), Li et al. 2024 (EAGLE-2), for trees by path probability.
Shapes: R nodes of the level before, the root alone before the first; C likely tokens after each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Level(NamedTuple):
    """A level's nodes, the greatest chance first. `parents`: of each its row in the level before.

    `probs`: of each token after its parent; `chances`: of its whole path.
    """

    tokens: list[int]
    parents: list[int]
    probs: list[float]
    chances: list[float]


def grow(likely_RC: Tensor, probs_RC: Tensor, chances: Sequence[float], width: int) -> Level:
    """The `width` children of the greatest chances, or all where there are fewer; ties go to the lower row, then the rank.

    Shapes: likely_RC [R, C] int64, probs_RC alike, fp32; chances: of the level before, [R].
    """
    chances_RC = probs_RC * torch.tensor(chances, dtype=torch.float32)[:, None]
    best = chances_RC.flatten().argsort(descending=True, stable=True)[:width]
    return Level(
        tokens=likely_RC.flatten()[best].tolist(),
        parents=(best // likely_RC.shape[1]).tolist(),
        probs=probs_RC.flatten()[best].tolist(),
        chances=chances_RC.flatten()[best].tolist(),
    )


def descend(paths: Sequence[Sequence[int]], parents: Sequence[int], first: int) -> list[list[int]]:
    """The slots of each node's path, its own the last: `first`, first + 1, … `paths`: those of the level before."""
    return [[*paths[parent], slot] for slot, parent in enumerate(parents, start=first)]
