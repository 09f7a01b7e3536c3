"""A tree that grows on the device, with what its levels leave there; all come to the host in one copy.

Level 0 is the root, the last confirmed token; level d the nodes at depth d. Each has a record: its nodes, and when the pass
that feeds them ran. Nothing here allocates or synchronises when called.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specmon.kernels.attention.split import Branched
from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.tree.grow import grow_kernel
from specmon.kernels.tree.reference import Level

_HALF = ROWS // 2  # int64 words that 16 numbers of 32 bits fill
_WORDS = ROWS + 4 * _HALF  # of a record
_WARPS = 4


@dataclass(frozen=True, kw_only=True)
class _Record:
    """tokens [16] int64; parents [16] int32; probs, chances [16] fp32, as in `Level`; stamps [2] int64, as in `Winners`."""

    tokens: Tensor
    parents: Tensor
    probs: Tensor
    chances: Tensor
    stamps: Tensor

    @classmethod
    def within(cls, memory: Tensor) -> _Record:
        """Views of `memory` [48] int64; each starts at a multiple of 64 bytes in it."""
        parents, probs, chances, stamps = torch.split(memory[ROWS:], _HALF)
        return cls(
            tokens=memory[:ROWS],
            parents=parents.view(torch.int32),
            probs=probs.view(torch.float32),
            chances=chances.view(torch.float32),
            stamps=stamps[:2],
        )


class _RecordsHere:
    """Records where the host reads them, as NumPy arrays: reading a tensor costs it several times as much.

    Shapes: tokens, parents, probs, chances [levels, 16]; stamps [levels, 2].
    """

    def __init__(self, memory: NDArray[np.int64]) -> None:
        self.tokens = memory[:, :ROWS]
        self.parents = memory[:, ROWS : ROWS + _HALF].view(np.int32)
        self.probs = memory[:, ROWS + _HALF : 2 * ROWS].view(np.float32)
        self.chances = memory[:, 2 * ROWS : 2 * ROWS + _HALF].view(np.float32)
        self.stamps = memory[:, 2 * ROWS + _HALF : 2 * ROWS + _HALF + 2]


class TreeLevels:
    """Up to `n_levels` levels of up to 16 nodes."""

    def __init__(self, n_levels: int, device: torch.device) -> None:
        shape = 1 + n_levels, _WORDS
        self._near = torch.zeros(shape, dtype=torch.int64, device=device)
        self._here = torch.zeros(shape, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._records_here = _RecordsHere(self._here.numpy())
        self._records = [_Record.within(memory) for memory in self._near]
        self._records[0].chances.fill_(1.0)
        # Of each level prefixes, positions and slots; then the slots of paths, a row a depth.
        self._tables = torch.zeros(1 + n_levels, 3 + ROWS, ROWS, dtype=torch.int32, device=device)
        self.addresses = torch.zeros(ROWS, dtype=torch.int64, device=device)
        self._options = launch_options(device)

    def grow(
        self,
        depth: int,
        likely: Tensor,
        probs: Tensor,
        width: int,
        cursor: Tensor,
        behind: int,
        carries: Tensor | None = None,
    ) -> None:
        """Queue level `depth`: the `width` likeliest children of the level before.

        The first level's slots begin `behind` past the cursor. `carries`, of the level before: `addresses` [16] says then
        where the one of each node's parent lies.
        Shapes: likely [R, C] int64, probs alike, fp32, both contiguous; cursor [1] int32 or longer; carries [R, D] fp32.
        """
        above, record, table = self._records[depth - 1], self._records[depth], self._tables[depth]
        n_rows, count = likely.shape
        grow_kernel[(1,)](
            likely, probs, above.chances, self._tables[depth - 1], cursor, probs if carries is None else carries,
            record.tokens, record.parents, record.probs, record.chances, table, self.addresses, behind, depth,
            ROWS=n_rows, COUNT=count, WIDTH=width,
            CARRY_BYTES=0 if carries is None else carries.stride(0) * carries.element_size(),
            num_warps=_WARPS, **self._options,
        )  # fmt: skip

    def tokens(self, depth: int) -> Tensor:
        """The tokens of a level's nodes [16] int64."""
        return self._records[depth].tokens

    def rows(self, depth: int) -> Branched:
        """Where the rows that feed a level's nodes stand."""
        prefixes, positions, slots = self._tables[depth, :3]
        return Branched(positions=positions, slots=slots, prefixes=prefixes, own=self._tables[depth, 3:])

    def stamps(self, depth: int) -> Tensor:
        """Where the pass that feeds a level says when it ran [2] int64."""
        return self._records[depth].stamps

    def bring(self, n_levels: int) -> None:
        """Queue the copy of the root's record and the first levels' to the host."""
        self._here[: 1 + n_levels].copy_(self._near[: 1 + n_levels], non_blocking=True)

    def here(self, n_levels: int, width: int) -> list[Level]:
        """The first levels, of `width` nodes each, once the device is done."""
        found = self._records_here
        columns = [
            part[1 : 1 + n_levels, :width].tolist()
            for part in (found.tokens, found.parents, found.probs, found.chances)
        ]
        return [
            Level(tokens=tokens, parents=parents, probs=probs, chances=chances)
            for tokens, parents, probs, chances in zip(*columns, strict=True)
        ]

    def ran(self, n_levels: int) -> tuple[int, int] | None:
        """When the passes that lead to the first levels ran, by the device's clock (ns); None without stamps."""
        stamps = self._records_here.stamps
        began, ended = int(stamps[0, 0]), int(stamps[n_levels - 1, 1])
        return (began, ended) if began else None
