"""Which schedules are worth trying for an op at a shape."""

from __future__ import annotations

from itertools import product

from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.stream.schedule import WEIGHTS, Schedule
from specmon.kernels.stream.shapes import Matmul

_SHARED_BYTES = 227 * 1024
_SPLITS = range(1, 15)
_LEAST_INPUTS = 64  # a part of K that is worth a program


def candidates(matmul: Matmul, *, any_split: bool) -> list[Schedule]:
    """Schedules that fit the matrix instruction and shared memory; the one in use is not among them.

    Another split adds in another order, so it is left out unless `any_split`. A tile stays as it is where its outputs end
    together (a head of qkv; what o and down leave as one sum of squares; a group of inputs of the next matmul in fp8) and
    may then be shared by programs; in fp8 a step has whole groups of inputs.
    """
    now = matmul.schedule
    splits = _splits(matmul) if any_split else [now.split]
    found = [
        Schedule(bn=bn, parts=parts, bk=bk, split=split, stages=stages, warps=warps)
        for split, (bn, parts), bk, stages, warps in product(
            splits, _rows(matmul, now), _inputs(matmul), (2, 3, 4, 5, 6, 8), (4, 8)
        )
    ]
    return [s for s in found if s != now and _fits(matmul, s)]


def _splits(matmul: Matmul) -> list[int]:
    if matmul.op == "head":
        return [1]
    return [1, *(s for s in _SPLITS[1:] if matmul.k // s >= _LEAST_INPUTS)]


def _rows(matmul: Matmul, now: Schedule) -> list[tuple[int, int]]:
    """Rows of a program, and programs a tile."""
    free = ("head",) if matmul.weights == "fp8" else ("gate_up", "head")
    if matmul.op in free:
        return [(bn, 1) for bn in (32, 64, 128)]
    return [(bn, now.tile // bn) for bn in (32, 64, 128) if now.tile % bn == 0]


def _inputs(matmul: Matmul) -> tuple[int, ...]:
    least = matmul.group if matmul.weights == "fp8" else 64
    return tuple(bk for bk in (64, 128, 256, 512) if bk >= least)


def _fits(matmul: Matmul, s: Schedule) -> bool:
    """A warp of a product owns 16 weight rows; tiles in flight lie in shared memory."""
    tiles = 2 * s.bn if matmul.op == "gate_up" else s.bn
    shared = (tiles + ROWS) * s.bk * WEIGHTS[matmul.weights] * s.stages
    every_part_works = (s.split - 1) * s.k_part(matmul.k) < matmul.k
    return (
        tiles >= 16 * s.warps and s.bk * s.split <= matmul.k and every_part_works and shared <= _SHARED_BYTES
    )
