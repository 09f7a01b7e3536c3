"""The shapes of a decode step's matmuls, from which each one's schedule follows."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.kernels.stream.schedule import GROUP, Schedule, schedule_for, shape_key


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """Query heads, KV heads and head size of an attention layer."""

    n_heads: int
    n_kv_heads: int
    head_dim: int


@dataclass(frozen=True, kw_only=True)
class Matmul:
    """An op ("qkv", "o", "gate_up", "down", "head") with N outputs (of each of gate and up) and K inputs.

    `heads` is qkv's. `group`: inputs that share a scale in fp8. `biased`: it adds a bias. `head_norms`: qkv norms its q and
    k heads. `weights`: the format of W ("bf16", "fp8").
    """

    op: str
    n: int
    k: int
    heads: HeadShape | None = None
    group: int = GROUP
    biased: bool = False
    head_norms: bool = False
    weights: str = "bf16"

    @property
    def key(self) -> str:
        return shape_key(self.op, self.n, self.k)

    @property
    def schedule(self) -> Schedule:
        """The one that is in use."""
        bn = self.heads.head_dim if self.heads else None
        return schedule_for(self.op, self.n, self.k, bn=bn, group=self.group, weights=self.weights)

    @property
    def weight_rows(self) -> int:
        return 2 * self.n if self.op == "gate_up" else self.n
