"""Tree drafting with a model: several continuations of the confirmed text at once, for one verification.

Level by level the likeliest nodes are fed, each with the tokens that may follow it; of all that was seen, the nodes of the
highest probability along their path are the draft. Nodes have scratch slots past the confirmed text and are over with the
round: accepted tokens are fed again with the next draft's first pass, which costs no pass more.
Source: Cai et al. 2024 (Medusa), Li et al. 2024 (EAGLE-2), for trees by path probability.
Shapes: R rows, V vocabulary, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.core.drafters.base import Arrived, Prepared, Proposal
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.line import Stepper, best_tokens
from specmon.core.models.placement import Scattered, branch_visibility

#: Nodes a tree may have: one pass verifies them beside the token before it.
MAX_NODES = 15


def tree_width(n_nodes: int, draft_len: int) -> int:
    """Nodes a level is fed with, and tokens looked at after each: somewhat more than an even tree has."""
    return -(-n_nodes // draft_len) + 1 if n_nodes else 0


@dataclass(frozen=True, kw_only=True)
class _Node:
    """A token that may follow `parent` (−1: the confirmed text). `chance`: of the whole path, as the draft sees it."""

    token: int
    parent: int
    depth: int
    prob: float
    chance: float


class TreeDrafter(ChainDrafter):
    """Greedy trees of up to `n_nodes` nodes with a `Stepper`; no branches.

    Raises: ValueError for a number of nodes that cannot be.
    """

    def __init__(self, stepper: Stepper, n_nodes: int) -> None:
        if not 1 <= n_nodes <= MAX_NODES:
            raise ValueError(f"a tree has 1 to {MAX_NODES} nodes, not {n_nodes}")
        super().__init__(stepper, branches=True)
        self._n_nodes = n_nodes

    def draft(self, draft_len: int) -> Proposal:
        """A tree of at most `draft_len` levels."""
        tokens, features = self._unfed()
        first, self._valid = self._valid, len(self._context)
        line = self.stepper.draft(tokens, first, features, 0, guesses=True)
        self._count(1, self._valid, launches=line.launches, ran=line.ran)
        nodes: list[_Node] = []
        level, logits, carries = [-1], line.logits[0], line.carries[0]
        width = tree_width(self._n_nodes, draft_len)
        for depth in range(1, draft_len + 1):
            found = self._following(nodes, level, logits, depth, width)
            level = list(range(len(nodes), len(nodes) + len(found)))
            nodes += found
            if depth < draft_len:
                logits, carries = self._feed(nodes, level, carries)
        return _proposal(nodes, self._n_nodes, line.source)

    def prepare(
        self,
        fan_out: tuple[int, ...],
        draft_len: int,
        clock: Callable[[], int],
        arrived: Arrived,
        rename: object = None,
    ) -> list[Prepared]:
        """Raises: ValueError, as trees have no branches."""
        raise ValueError("a tree has no branches prepared")

    def _following(
        self, nodes: list[_Node], level: list[int], logits_RV: Tensor, depth: int, width: int
    ) -> list[_Node]:
        """The `width` likeliest nodes after those of a level."""
        tokens, probs = best_tokens(self.stepper, logits_RV, min(width, logits_RV.shape[1]))
        found = [
            _Node(
                token=token,
                parent=parent,
                depth=depth,
                prob=prob,
                chance=prob * (nodes[parent].chance if parent >= 0 else 1.0),
            )
            for parent, row_tokens, row_probs in zip(level, tokens, probs, strict=True)
            for token, prob in zip(row_tokens, row_probs, strict=True)
        ]
        return sorted(found, key=lambda node: -node.chance)[:width]

    def _feed(
        self, nodes: list[_Node], level: list[int], carries: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Feed a level's nodes, each in the scratch slot of its number, beside its ancestors."""
        device, base = self.stepper.kv.keys(0).device, len(self._context) - self.stepper.lag
        paths = [_path(nodes, i) for i in level]
        slots = [[base + node for node in path] for path in paths]
        before = carries if carries is None else carries[self._rows_of(nodes, level)]
        placement = Scattered(
            torch.tensor([base + len(path) - 1 for path in paths], device=device),
            torch.tensor([own[-1] for own in slots], device=device),
            branch_visibility(
                prefix_lengths=[base] * len(level),
                own_slots=slots,
                n_slots=base + len(nodes),
                device=device,
            ),
        )
        ids = torch.tensor([nodes[i].token for i in level], device=device)
        self._count(1, base + len(nodes))
        return self.stepper.step(ids, before, placement)

    @staticmethod
    def _rows_of(nodes: list[_Node], level: list[int]) -> list[int]:
        """In the pass before, the row of each node's parent."""
        parents = [nodes[i].parent for i in level]
        before = [i for i, node in enumerate(nodes) if node.depth == nodes[level[0]].depth - 1]
        return [before.index(parent) if parent >= 0 else 0 for parent in parents]


def _path(nodes: list[_Node], i: int) -> list[int]:
    """Nodes from the first level down to node i."""
    path = [i]
    while nodes[path[0]].parent >= 0:
        path.insert(0, nodes[path[0]].parent)
    return path


def _proposal(nodes: list[_Node], n_nodes: int, source: str | None) -> Proposal:
    """The `n_nodes` of the best chances, which include each one's parent; level by level."""
    best = sorted(sorted(range(len(nodes)), key=lambda i: -nodes[i].chance)[:n_nodes])
    place = {i: at for at, i in enumerate(best)} | {-1: -1}
    return Proposal(
        tokens=tuple(nodes[i].token for i in best),
        probs=tuple(nodes[i].prob for i in best),
        features="real" if source == "real" else None,
        parents=tuple(place[nodes[i].parent] for i in best),
    )
