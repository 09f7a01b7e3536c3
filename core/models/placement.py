"""Where the rows of one forward pass sit in the KV cache, and what each may attend to.

A forward pass is the same for prefill, decode and branch drafting but for this: positions, slots and attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.kernels.attention.reference import attend_masked, attend_prefill, attend_rows


class Placement(Protocol):
    """Positions of the rows, and how their K and V are stored and read.

    Shapes: q_RHD [R, H, D]; k_RGD, v_RGD [R, G, D]; result [R, H, D].
    """

    @property
    def positions(self) -> slice | Tensor:
        """Rotary positions of the rows: a slice, or [R] int64."""
        ...

    def attend(self, kv: KvCache, layer: int, q_RHD: Tensor, k_RGD: Tensor, v_RGD: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class _Consecutive:
    """R rows that follow each other from position `start`."""

    start: int
    n_rows: int

    @property
    def positions(self) -> slice:
        return slice(self.start, self.start + self.n_rows)


class Rows(_Consecutive):
    """R rows that follow each other from position `start`, each attending to everything up to itself.

    Every row is computed as if it were alone, so that its bits do not depend on R (AR, verification, drafting).
    """

    def attend(self, kv: KvCache, layer: int, q_RHD: Tensor, k_RGD: Tensor, v_RGD: Tensor) -> Tensor:
        keys, values = append(kv, layer, self.start, k_RGD, v_RGD)
        lengths = [self.start + i + 1 for i in range(self.n_rows)]
        return attend_rows(q_RHD.to(keys.dtype), keys, values, lengths)


class Chunk(_Consecutive):
    """A chunk of a prompt from position `start`: causal attention in one call. Its bits depend on (start, n_rows)."""

    def attend(self, kv: KvCache, layer: int, q_RHD: Tensor, k_RGD: Tensor, v_RGD: Tensor) -> Tensor:
        keys, values = append(kv, layer, self.start, k_RGD, v_RGD)
        end = self.start + self.n_rows
        return attend_prefill(q_RHD.to(keys.dtype), keys[:end], values[:end], self.start)


class Block(_Consecutive):
    """R rows that follow each other from position `start`, each attending to all before them and to all of them.

    Used for drafts, whose bits need not match any other way of computing them.
    """

    def attend(self, kv: KvCache, layer: int, q_RHD: Tensor, k_RGD: Tensor, v_RGD: Tensor) -> Tensor:
        keys, values = append(kv, layer, self.start, k_RGD, v_RGD)
        end = self.start + self.n_rows
        everything = torch.ones(self.n_rows, end, dtype=torch.bool, device=keys.device)
        return attend_masked(q_RHD.to(keys.dtype), keys[:end], values[:end], everything)


@dataclass(frozen=True)
class Tree:
    """Rows of a drafted tree: the pending token at position `start`, then the nodes, row i in slot start + i.

    A row has the bits it would have at the end of the chain of its ancestors: they lie in order before it while it attends.
    parents: of each node, −1 for children of the pending token; a parent comes before its children.
    """

    start: int
    parents: tuple[int, ...]

    @property
    def positions(self) -> Tensor:
        return torch.tensor([self.start + len(path) - 1 for path in self.paths])

    @cached_property
    def paths(self) -> list[list[int]]:
        """Rows from the pending token's down to each row's own."""
        return tree_paths(self.parents)

    def attend(self, kv: KvCache, layer: int, q_RHD: Tensor, k_RGD: Tensor, v_RGD: Tensor) -> Tensor:
        q_RHD = q_RHD.to(kv.keys(layer).dtype)
        outputs = []
        for row, path in enumerate(self.paths):
            keys, values = append(kv, layer, self.start, k_RGD[path], v_RGD[path])
            outputs.append(attend_rows(q_RHD[row : row + 1], keys, values, [self.start + len(path)]))
        append(kv, layer, self.start, k_RGD, v_RGD)
        return torch.cat(outputs)


@dataclass(frozen=True)
class Scattered:
    """Rows of different continuations in one batch, each with its own position, slot and visible slots.

    positions_R, slots_R [R] int64; visible_RS [R, S'] bool over the first S' slots. Used for branch drafts, whose bits
    need not match any other way of computing them.
    """

    positions_R: Tensor
    slots_R: Tensor
    visible_RS: Tensor

    @property
    def positions(self) -> Tensor:
        return self.positions_R

    def attend(self, kv: KvCache, layer: int, q_RHD: Tensor, k_RGD: Tensor, v_RGD: Tensor) -> Tensor:
        keys, values = kv.keys(layer), kv.values(layer)
        keys[self.slots_R] = k_RGD.to(keys.dtype)
        values[self.slots_R] = v_RGD.to(values.dtype)
        n = self.visible_RS.shape[1]
        return attend_masked(q_RHD.to(keys.dtype), keys[:n], values[:n], self.visible_RS)


def tree_paths(parents: Sequence[int]) -> list[list[int]]:
    """Rows from the root (row 0) down to each row, node i being row i + 1."""
    paths = [[0]]
    for node, parent in enumerate(parents):
        paths.append([*paths[parent + 1], node + 1])
    return paths


def append(kv: KvCache, layer: int, start: int, k_RGD: Tensor, v_RGD: Tensor) -> tuple[Tensor, Tensor]:
    """Store rows in the slots from `start` on.

    Returns: the layer's keys and values [S, G, D]. Raises: ValueError past the end.
    """
    end = start + k_RGD.shape[0]
    if end > kv.n_slots:
        raise ValueError(f"slots {start}..{end} in a cache of {kv.n_slots}")
    keys, values = kv.keys(layer), kv.values(layer)
    keys[start:end] = k_RGD
    values[start:end] = v_RGD
    return keys, values


def branch_step(
    prefixes: Sequence[int], slots: Sequence[Sequence[int]], step: int, device: torch.device
) -> Scattered:
    """Where the rows of branches stand at `step`, each after its prefix and the slots it has filled before."""
    now = [own[step] for own in slots]
    visible = branch_visibility(
        prefix_lengths=list(prefixes),
        own_slots=[list(own[: step + 1]) for own in slots],
        n_slots=max(now) + 1,
        device=device,
    )
    positions = torch.tensor([prefix + step for prefix in prefixes], device=device)
    return Scattered(positions, torch.tensor(now, device=device), visible)


def branch_visibility(
    *, prefix_lengths: list[int], own_slots: list[list[int]], n_slots: int, device: torch.device
) -> Tensor:
    """Visible slots of each branch row: its prefix on the main line, then its own slots.

    Returns: bool [R, n_slots].
    """
    prefix = torch.tensor(prefix_lengths, device=device)[:, None]
    visible = torch.arange(n_slots, device=device)[None, :] < prefix
    rows = [i for i, slots in enumerate(own_slots) for _ in slots]
    columns = [slot for slots in own_slots for slot in slots]
    if columns:
        visible[torch.tensor(rows, device=device), torch.tensor(columns, device=device)] = True
    return visible
