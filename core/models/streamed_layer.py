"""One layer of up to 16 rows through streaming kernels: a decoder's, or an EAGLE-3 head's.

Shapes: D hidden size; H query heads, HK KV heads. Each kernel leaves what the next needs; the residual stays in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.core.models.config import ModelConfig
from specmon.core.models.transformer import Attention, Mlp
from specmon.kernels.attention.split import Branched, Merge, SplitAttention
from specmon.kernels.linear import DenseLinear, Fp8Linear, Linear
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.rope.reference import RopeTable
from specmon.kernels.stream.launch import Entering, QkvMatmul, ResidualMatmul, Stream, SwigluMatmul
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows
from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.shapes import HeadShape


@dataclass(frozen=True)
class Rotation:
    """cos and sin [positions, head size / 2] fp32."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def of(cls, table: RopeTable, head_dim: int) -> Rotation:
        half = head_dim // 2
        return cls(table.cos[:, 0, :half].contiguous(), table.sin[:, 0, half:].contiguous())


@dataclass(frozen=True)
class Place:
    """Where a layer's rows go: their positions, K and V [slots, HK, head size], and the attention.

    `rows`: positions [16] int32 (device) on the main line, whose slots they are too; or where branches stand.
    """

    rows: Tensor | Branched
    keys: Tensor
    values: Tensor
    attention: SplitAttention
    merge: Merge


@dataclass(frozen=True)
class Between:
    """What kernels of a layer leave for the next one: q [16, H, head size], mixed values alike, inner [16, FFN]."""

    q: Tensor
    mixed: Scaled
    inner: Scaled


class StreamedLayer:
    """Two branches on the residual stream, behind the matmuls of `kernels.stream`.

    Args:
        next_norm: weight of the norm that follows the layer.
        schedules: one an op, as `matmuls_of` names them.
        entering_eps: of the norm ahead of qkv; 0 where its rows come normed already.
    Raises: ValueError where a weight is neither dense nor fp8, or has a bias the kernels do not take.
    """

    def __init__(
        self,
        config: ModelConfig,
        attention: Attention,
        post_norm: Tensor,
        mlp: Mlp,
        next_norm: Tensor,
        schedules: Mapping[str, Schedule],
        *,
        entering_eps: float,
    ) -> None:
        qkv, qkv_bias = parts(attention.qkv)
        o, o_bias = parts(attention.o)
        gate_up, gate_up_bias = parts(mlp.gate_up)
        down, down_bias = parts(mlp.down)
        if gate_up_bias is not None:
            raise ValueError("the streaming kernels take no bias on gate and up")
        shape = HeadShape(n_heads=config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim)
        self.qkv = QkvMatmul(qkv, qkv_bias, attention.head_norms, shape, schedules["qkv"], entering_eps)
        self.o = ResidualMatmul(o, o_bias, schedules["o"])
        self.gate_up = SwigluMatmul(gate_up, schedules["gate_up"], config.norm_eps)
        self.down = ResidualMatmul(down, down_bias, schedules["down"])
        self._post_norm, self._next_norm = post_norm, next_norm

    def __call__(
        self,
        entering: Entering,
        stream: Stream,
        leaving: Stream,
        between: Between,
        rotation: Rotation,
        at: Place,
        n_rows: int,
    ) -> None:
        """Queue the layer: qkv reads `entering`, the residual is `stream`'s, and `leaving` gets h for what follows.

        `stream` and `leaving` have one residual and one tile.
        """
        rows, q, keys, values = at.rows, between.q, at.keys, at.values
        positions, slots = (rows.positions, rows.slots) if isinstance(rows, Branched) else (rows, rows)
        self.qkv(entering, rotation.cos, rotation.sin, positions, slots, q, keys, values, n_rows)
        if isinstance(rows, Branched):
            at.attention.branches(q, keys, values, rows, between.mixed, n_rows, at.merge)
        else:
            at.attention(q, keys, values, rows, between.mixed, n_rows, at.merge)
        self.o(between.mixed.flat(), stream, self._post_norm, n_rows)
        self.gate_up(stream, between.inner, n_rows)
        self.down(between.inner, leaving, self._next_norm, n_rows)


def buffers(config: ModelConfig, layer: StreamedLayer, dtype: torch.dtype) -> tuple[Stream, Between]:
    """The stream and what layers like `layer` pass on; `dtype` is that of rows where weights are not fp8."""
    device, heads = layer.o.weight.data.device, (config.n_heads, config.head_dim)
    rows = dtype if layer.o.weight.scale is None else FP8
    return Stream(config.hidden_size, layer.o.schedule.tile, rows, device), Between(
        q=torch.zeros(ROWS, *heads, dtype=dtype, device=device),
        mixed=empty_rows(heads, config.head_dim, rows, device),
        inner=empty_rows((config.intermediate_size,), layer.gate_up.schedule.tile, rows, device),
    )


def parts(linear: Linear) -> tuple[Scaled, Tensor | None]:
    """A matmul's weight and bias. Raises: ValueError for weights that are neither dense nor fp8."""
    if isinstance(linear, DenseLinear):
        return Scaled(linear.weight), linear.bias
    if isinstance(linear, Fp8Linear):
        return Scaled(linear.weight, linear.scale), linear.bias
    raise ValueError(f"the streaming kernels take dense or fp8 weights, not {type(linear).__name__}")
