"""Tree drafting with a model: several continuations of the confirmed text at once, for one verification.

Level by level the likeliest nodes are fed, each with the tokens that may follow it; of all that was seen, the nodes of the
highest probability along their path are the draft. With kernels all levels are one piece of work for the device. Nodes have
scratch slots past the confirmed text and are over with the round: accepted tokens are fed again with the next draft's first
pass, which costs no pass more.
Source: Cai et al. 2024 (Medusa), Li et al. 2024 (EAGLE-2), for trees by path probability.
Shapes: R rows, V vocabulary, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from specmon.core.drafters.base import Arrived, Prepared, Proposal
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.line import Stepper
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.placement import Scattered, branch_visibility
from specmon.kernels.head.reference import top_rows
from specmon.kernels.tree.reference import Level, descend, grow

#: Nodes a tree may have: one pass verifies them beside the token before it.
MAX_NODES = 15


def tree_width(n_nodes: int, draft_len: int) -> int:
    """Nodes a level is fed with, and tokens looked at after each: somewhat more than an even tree has."""
    return -(-n_nodes // draft_len) + 1 if n_nodes else 0


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
        if not draft_len:
            return Proposal(tokens=(), parents=())
        if len(self._context) - self._valid > MAX_ROWS:
            self.catch_up()
        tokens, features = self._unfed()
        first, self._valid = self._valid, len(self._context)
        width = tree_width(self._n_nodes, draft_len)
        out = self.stepper.tree(tokens, first, features, draft_len, width)
        if out is None:
            levels = self._by_steps(tokens, first, features, draft_len, width)
        else:
            levels = out.levels
            after_first = sum(self._base + depth * width for depth in range(1, draft_len))
            self._count(draft_len, self._valid + after_first, launches=out.launches, ran=out.ran)
        return _proposal(levels, self._n_nodes, "real" if self.stepper.corrects else None)

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

    @property
    def _base(self) -> int:
        """The first slot past the confirmed text."""
        return len(self._context) - self.stepper.lag

    def _by_steps(
        self, tokens: list[int], first: int, features: Tensor | None, draft_len: int, width: int
    ) -> list[Level]:
        """The tree's levels, each fed by itself."""
        line = self.stepper.draft(tokens, first, features, 0, guesses=True)
        self._count(1, self._valid, launches=line.launches, ran=line.ran)
        logits, carries = line.logits[0], line.carries[0]
        levels: list[Level] = []
        paths: list[list[int]] = [[]]
        chances, end = [1.0], self._base
        for depth in range(1, draft_len + 1):
            index, probs = top_rows(logits, min(width, logits.shape[1]))
            level = grow(self.stepper.token_ids(index).cpu(), probs.cpu(), chances, width)
            levels.append(level)
            paths, chances = descend(paths, level.parents, end), level.chances
            end += len(paths)
            if depth < draft_len:
                before = None if carries is None else carries[level.parents]
                logits, carries = self._feed(level.tokens, paths, before, end)
        return levels

    def _feed(
        self, tokens: list[int], paths: Sequence[list[int]], before: Tensor | None, end: int
    ) -> tuple[Tensor, Tensor | None]:
        """Feed a level's nodes, each in the last slot of its path; no slot is past `end`."""
        device, base = self.stepper.kv.keys(0).device, self._base
        placement = Scattered(
            torch.tensor([base + len(path) - 1 for path in paths], device=device),
            torch.tensor([path[-1] for path in paths], device=device),
            branch_visibility(
                prefix_lengths=[base] * len(paths), own_slots=list(paths), n_slots=end, device=device
            ),
        )
        self._count(1, end)
        return self.stepper.step(torch.tensor(tokens, device=device), before, placement)


def _proposal(levels: list[Level], n_nodes: int, features: Literal["real"] | None) -> Proposal:
    """The `n_nodes` of the best chances, which include each one's parent; level by level."""
    tokens = [token for level in levels for token in level.tokens]
    probs = [prob for level in levels for prob in level.probs]
    chances = [chance for level in levels for chance in level.chances]
    parents = _parents(levels)
    best = sorted(sorted(range(len(tokens)), key=chances.__getitem__, reverse=True)[:n_nodes])
    place = {i: at for at, i in enumerate(best)} | {-1: -1}
    return Proposal(
        tokens=tuple(tokens[i] for i in best),
        probs=tuple(probs[i] for i in best),
        features=features,
        parents=tuple(place[parents[i]] for i in best),
    )


def _parents(levels: list[Level]) -> list[int]:
    """The parent of each node, nodes being numbered level by level; −1 for the confirmed text."""
    parents: list[int] = []
    before = -1  # the first node of the level before
    for level in levels:
        first = len(parents)
        parents += [before + row for row in level.parents]
        before = first
    return parents
