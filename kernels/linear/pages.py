"""Weights side by side in huge pages.

Decoding on a CPU reads every weight once a step. In pages of 4 KiB that is tens of thousands of page walks, a quarter
of the step of a small model in a virtual machine; in pages of 2 MiB it is a few dozen.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

_ALIGNMENT = 64  # a cache line


@runtime_checkable
class Movable(Protocol):
    """Something whose weights can be put elsewhere."""

    @property
    def weight_bytes(self) -> int: ...

    def move(self, put: Callable[[Tensor], Tensor]) -> None:
        """Replace each large CPU tensor by `put`'s copy of it."""
        ...


def into_huge_pages(linears: Iterable[object]) -> None:
    """Move the CPU weights of `linears` into one mapping of huge pages; does nothing where the system has none."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    movable = [linear for linear in linears if isinstance(linear, Movable)]
    sizes: list[int] = []
    for linear in movable:
        linear.move(lambda tensor: _count(tensor, sizes))
    if not sum(sizes):
        return
    arena = _Arena(sum(sizes))
    for linear in movable:
        linear.move(arena.put)


def _count(tensor: Tensor, sizes: list[int]) -> Tensor:
    sizes.append(_aligned(tensor.nbytes))
    return tensor


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Arena:
    """A mapping that is filled from its start; its tensors keep it alive."""

    def __init__(self, size: int) -> None:
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        mapping.madvise(mmap.MADV_HUGEPAGE)
        self._bytes, self._used = torch.frombuffer(mapping, dtype=torch.uint8), 0

    def put(self, tensor: Tensor) -> Tensor:
        place = self._bytes[self._used : self._used + tensor.nbytes]
        self._used += _aligned(tensor.nbytes)
        return place.view(tensor.dtype).view(tensor.shape).copy_(tensor)
