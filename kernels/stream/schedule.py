"""How each streaming matmul is cut up: tile sizes, splits of K, pipeline stages, warps.

A schedule fixes the order of every sum, so it is part of the backend's version: change one, and bits may change.
"""

from __future__ import annotations

from dataclasses import dataclass

_SM_COUNT = 132  # programs that fill an H100 or H200 once
_RESIDUAL_BN = 64


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """bn weight rows and bk inputs a tile, K in `split` parts, `stages` tiles in flight, `warps` a program."""

    bn: int
    bk: int
    split: int = 1
    stages: int = 4
    warps: int = 4


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


#: Winners on an H200, bf16, by (op, N, K); what else was tried is in docs/benchmarks.
_TUNED = {
    ("qkv", 4608, 3584): Schedule(bn=128, bk=128, split=7, stages=3),
    ("o", 3584, 3584): Schedule(bn=64, bk=256, split=2, stages=3),
    ("gate_up", 18944, 3584): Schedule(bn=64, bk=128, stages=5),
    ("down", 3584, 18944): Schedule(bn=64, bk=256, split=2),
    ("head", 152064, 3584): Schedule(bn=128, bk=256, stages=3),
}


def schedule_for(op: str, n: int, k: int, *, bn: int | None = None) -> Schedule:
    """The schedule of `op` ("qkv", "o", "gate_up", "down", "head") for N outputs and K inputs; qkv's bn is the head size.

    o and down share bn, since both leave sums of squares by tile.
    """
    tuned = _TUNED.get((op, n, k))
    if tuned is not None:
        return tuned
    rows = bn or (_RESIDUAL_BN if op in ("o", "down") else None)
    return default_schedule(n, k, bn=rows, may_split=op in ("qkv", "o", "down"))


def default_schedule(n: int, k: int, *, bn: int | None = None, may_split: bool = True) -> Schedule:
    """A schedule for a shape nobody tuned: enough programs to fill the chip, K split evenly in tiles of 64 or more."""
    rows = bn or (128 if n >= 128 * _SM_COUNT * 2 else 64)
    bk = 128 if k >= 1024 else 64
    split = 1
    while may_split and cdiv(n, rows) * split < _SM_COUNT and split < 8 and k % (split * 2 * 64) == 0:
        split *= 2
    return Schedule(bn=rows, bk=min(bk, k // split), split=split)
