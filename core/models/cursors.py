"""Positions on the device: where the rows of a pass stand, those of each pass of a draft, of branches and of a tree.

All are read from the host's memory when a graph runs. A pass has 16 of them: rows of 64 bytes, since Triton compiles by
alignment and all passes run one binary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor

from specmon.core.models.passes import MAX_ROWS, BranchStart, Pick
from specmon.kernels.attention.split import Branched, Merge, merge_for

#: Positions a chain covers at most: its first rows, then one a step.
REACH = 2 * MAX_ROWS - 1


class Cursors:
    """The positions [16] int32 of rows that follow each other on the main line; the first is the cursor."""

    def __init__(self, device: torch.device) -> None:
        rows = torch.arange(MAX_ROWS, dtype=torch.int32)
        self._rows = rows.numpy()
        self._start = rows.pin_memory() if device.type == "cuda" else rows.clone()
        self._start_here = self._start.numpy()
        self.first = torch.zeros(MAX_ROWS, dtype=torch.int32, device=device)
        self._ahead = (torch.arange(REACH, dtype=torch.int32)[:, None] + rows).to(device)
        self._all = torch.zeros(REACH, MAX_ROWS, dtype=torch.int32, device=device)

    def start_at(self, position: int) -> None:
        """Where the next pass begins; no pass that reads it may be under way."""
        np.add(self._rows, position, out=self._start_here)

    def begin(self) -> None:
        """Queue the first positions: every layer reads them, from memory near by."""
        self.first.copy_(self._start, non_blocking=True)

    def begin_all(self) -> None:
        """Queue the first positions and all after them."""
        self.begin()
        torch.add(self._ahead, self.first[:1], out=self._all)

    def __getitem__(self, ahead: int) -> Tensor:
        """The positions from `ahead` of the first on, after `begin_all`."""
        return self._all[ahead]


@dataclass(frozen=True)
class BranchShape:
    """A batch of branches: what a graph of it is captured for."""

    n_rows: int
    steps: int
    batch: int
    merge: Merge


class BranchTables:
    """Where branches stand at each step, and which slots are theirs."""

    def __init__(self, device: torch.device) -> None:
        shape = 1 + MAX_ROWS, MAX_ROWS  # prefixes; then slots, a row of the table a step
        self._start = torch.zeros(shape, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._start_here = self._start.numpy()
        self._near = torch.zeros(shape, dtype=torch.int32, device=device)
        self._ahead = torch.arange(MAX_ROWS, dtype=torch.int32)[:, None].repeat(1, MAX_ROWS).to(device)
        self._positions = torch.zeros(MAX_ROWS, MAX_ROWS, dtype=torch.int32, device=device)

    def start_at(self, starts: Sequence[BranchStart | Pick], steps: int, batch: int) -> BranchShape:
        """The branches of the next batch; no batch may be under way."""
        table = [[start.prefix, *start.slots[:steps]] for start in starts]
        self._start_here[: 1 + steps, : len(starts)] = np.transpose(table)
        longest = max(start.prefix for start in starts) + steps
        return BranchShape(len(starts), steps, batch, merge_for(longest))

    def begin(self) -> None:
        """Queue the tables of all steps."""
        self._near.copy_(self._start, non_blocking=True)
        torch.add(self._ahead, self._near[0], out=self._positions)

    def __getitem__(self, step: int) -> Branched:
        """Where rows stand at `step`, after `begin`."""
        prefixes, own = self._near[0], self._near[1:]
        return Branched(positions=self._positions[step], slots=own[step], prefixes=prefixes, own=own)


class TreeTable:
    """Where the rows of a drafted tree stand, and the slots of each one's ancestors."""

    def __init__(self, device: torch.device) -> None:
        shape = (
            3 + MAX_ROWS,
            MAX_ROWS,
        )  # prefixes, positions, slots; then ancestors, a row of the table a depth
        self._start = torch.zeros(shape, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._start_here = self._start.numpy()
        self._near = torch.zeros(shape, dtype=torch.int32, device=device)

    def start_at(self, start: int, paths: Sequence[Sequence[int]]) -> None:
        """The rows of the next tree, from slot `start` on; no pass over one may be under way.

        `paths`: of each row the rows from the first down to itself.
        """
        n_rows = len(paths)
        rows = [[0] * n_rows, [len(path) - 1 for path in paths], range(n_rows)]
        rows += zip_longest(*paths, fillvalue=0)
        np.add(rows, start, out=self._start_here[: len(rows), :n_rows])

    def begin(self) -> Branched:
        """Queue the table. Returns: where the rows stand."""
        self._near.copy_(self._start, non_blocking=True)
        prefixes, positions, slots = self._near[:3]
        return Branched(positions=positions, slots=slots, prefixes=prefixes, own=self._near[3:])
