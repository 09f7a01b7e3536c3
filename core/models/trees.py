"""Drafted trees that grow on the device: what both kinds of draft model need between two passes.

A pass leaves logits; their likely tokens are found, and the likeliest paths among them are the rows of the next pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specmon.core.models.passes import MAX_ROWS, TreeOut, check_tree
from specmon.kernels.attention.split import Branched, Merge, merge_for
from specmon.kernels.head.likely import LikelyRows
from specmon.kernels.stream.winners import WORDS, Winners
from specmon.kernels.tree.levels import TreeLevels

#: Queues a pass: tokens, where they stand, how many, and where it says when it ran. What comes back are logits [n_rows, V]
#: and, where rows begin with their parent's, carries [n_rows, D].
Feed = Callable[[Tensor, Tensor | Branched, int, Winners], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class TreeShape:
    """A whole tree: what a graph of it is captured for. `n_rows` confirmed tokens are fed before its first level."""

    n_rows: int
    depth: int
    width: int
    merge: Merge


class _Likely:
    """The `width` likeliest tokens of up to 16 rows of logits: tokens [16, width] int64, probs alike, fp32."""

    def __init__(self, n_tokens: int, width: int, device: torch.device, names: Tensor | None) -> None:
        self._find = LikelyRows(n_tokens, width, device, names)
        self._tokens = torch.zeros(MAX_ROWS, width, dtype=torch.int64, device=device)
        self._probs = torch.zeros(MAX_ROWS, width, device=device)

    def __call__(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        n_rows = len(logits)
        self._find(logits, n_rows, self._tokens, self._probs)
        return self._tokens[:n_rows], self._probs[:n_rows]


class GrownTrees:
    """Trees of up to 16 levels, one at a time.

    Args:
        names: token ids of the logits [n_tokens] int64; without it a logit's number is its token.
    """

    def __init__(self, n_tokens: int, device: torch.device, names: Tensor | None = None) -> None:
        self._n_tokens, self._names, self._device = n_tokens, names, device
        self._levels = TreeLevels(MAX_ROWS, device)
        self._likely: dict[int, _Likely] = {}
        self._unread = Winners.within(torch.zeros(WORDS, dtype=torch.int64, device=device))

    def start_at(self, n_rows: int, slot: int, depth: int, width: int, n_slots: int) -> TreeShape:
        """The next tree, after `n_rows` tokens from `slot` on. Raises: ValueError for one that cannot be in `n_slots`."""
        width = min(width, self._n_tokens)
        check_tree(n_rows, slot, depth, width, n_slots)
        if width not in self._likely:  # made before anything is counted or captured
            self._likely[width] = _Likely(self._n_tokens, width, self._device, self._names)
        return TreeShape(n_rows, depth, width, merge_for(slot + n_rows + depth - 1))

    def enqueue(self, shape: TreeShape, tokens: Tensor, cursor: Tensor, feed: Feed) -> None:
        """Queue the tree after `n_rows` confirmed tokens, from the first pass to the copy of its levels to the host.

        Shapes: tokens [16] int64; cursor [16] int32, the positions of the confirmed rows.
        """
        levels, width = self._levels, shape.width
        rows: Tensor | Branched = cursor
        n_rows, last = shape.n_rows, shape.n_rows - 1
        for depth in range(1, shape.depth + 1):
            logits, carries = feed(tokens, rows, n_rows, self._winners(depth - 1))
            likely, probs = self._likely[width](logits[last:])
            after = None if carries is None else carries[last:]
            levels.grow(depth, likely, probs, width, cursor, shape.n_rows, after)
            tokens, rows, n_rows, last = levels.tokens(depth), levels.rows(depth), width, 0
        levels.bring(shape.depth)

    @property
    def addresses(self) -> Tensor:
        """Where the carry of each row's parent lies, in the pass that is fed next [16] int64."""
        return self._levels.addresses

    def _winners(self, depth: int) -> Winners:
        """For the pass that feeds a level (0: the confirmed tokens), of which its times alone are kept."""
        return replace(self._unread, stamps=self._levels.stamps(depth))

    def out(self, shape: TreeShape, launches: int | None) -> TreeOut:
        """The tree, once the device is done."""
        return TreeOut(
            levels=self._levels.here(shape.depth, shape.width),
            launches=launches,
            ran=self._levels.ran(shape.depth),
        )
