"""The Triton backend: decode rows through streaming kernels, one CUDA graph a row count.

Prompts run through the reference model's own layers on the same weights; up to 16 rows of decode through fused kernels
whose sums have one order for every row count. A graph holds a whole pass, from token ids in pinned memory to winning
tokens there: one launch, nothing waited for inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.matmuls import matmuls_of
from specmon.core.models.passes import RowsOut
from specmon.core.models.placement import Chunk
from specmon.core.models.transformer import Layer, Transformer
from specmon.kernels.attention.split import SplitAttention
from specmon.kernels.linear import DenseLinear, Fp8Linear, Linear
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.stream.launch import (
    HeadMatmul,
    QkvMatmul,
    ResidualMatmul,
    Stream,
    SwigluMatmul,
    embed,
)
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows
from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.shapes import HeadShape


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Winning tokens [16] int64 and margins [16] fp32 of a pass's rows."""

    tokens: Tensor
    margins: Tensor


class Taps:
    """Keeps the input of some layers of a pass: features [16, taps · D] fp32."""

    def __init__(self, layers: Sequence[int], width: int, device: torch.device) -> None:
        self._layers, self._width = tuple(layers), width
        self.features = torch.zeros(ROWS, len(layers) * width, device=device)

    def keep(self, layer: int, residual: Tensor) -> None:
        if layer in self._layers:
            at = self._layers.index(layer) * self._width
            self.features[:, at : at + self._width] = residual


@dataclass(frozen=True, kw_only=True)
class _StreamedLayer:
    qkv: QkvMatmul
    o: ResidualMatmul
    post_norm: Tensor
    gate_up: SwigluMatmul
    down: ResidualMatmul
    next_norm: Tensor


class StreamedModel:
    """A reference model's weights behind streaming kernels, with the buffers rows pass through.

    Raises: ValueError where a weight is neither dense nor fp8, or has a bias the kernels do not take.
    """

    def __init__(self, reference: Transformer) -> None:
        config, device = reference.config, reference.device
        self.reference = reference
        self.shape = HeadShape(n_heads=config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim)
        half = config.head_dim // 2
        self.cos = reference.rope.cos[:, 0, :half].contiguous()
        self.sin = reference.rope.sin[:, 0, half:].contiguous()
        norms = [layer.input_norm for layer in reference.layers[1:]] + [reference.norm]
        schedules = self._schedules(_parts(reference.layers[0].attention.qkv)[0])
        self.layers = [
            self._layer(layer, norm, schedules) for layer, norm in zip(reference.layers, norms, strict=True)
        ]
        head, _ = _parts(reference.head)
        self.head = HeadMatmul(head, self._schedules(head)["head"], config.norm_eps)
        dtype, heads, one = reference.embedding_VD.dtype, (config.n_heads, config.head_dim), self.layers[0]
        rows = dtype if one.o.weight.scale is None else FP8
        self.stream = Stream(config.hidden_size, one.o.schedule.tile, rows, device)
        self.to_head = self.stream.rounded_to(dtype if head.scale is None else FP8)
        self.q = torch.zeros(ROWS, *heads, dtype=dtype, device=device)
        self.mixed = empty_rows(heads, config.head_dim, rows, device)
        self.inner = empty_rows((config.intermediate_size,), one.gate_up.schedule.tile, rows, device)
        self._cursor = torch.zeros(1, dtype=torch.int32, device=device)

    def _layer(self, layer: Layer, next_norm: Tensor, schedules: dict[str, Schedule]) -> _StreamedLayer:
        eps = self.reference.config.norm_eps
        qkv, qkv_bias = _parts(layer.attention.qkv)
        o, o_bias = _parts(layer.attention.o)
        gate_up, gate_up_bias = _parts(layer.mlp.gate_up)
        down, down_bias = _parts(layer.mlp.down)
        if gate_up_bias is not None:
            raise ValueError("the streaming kernels take no bias on gate and up")
        q_norm, k_norm = layer.attention.q_norm, layer.attention.k_norm
        norms = (q_norm, k_norm) if q_norm is not None and k_norm is not None else None
        return _StreamedLayer(
            qkv=QkvMatmul(qkv, qkv_bias, norms, self.shape, schedules["qkv"], eps),
            o=ResidualMatmul(o, o_bias, schedules["o"]),
            post_norm=layer.post_norm,
            gate_up=SwigluMatmul(gate_up, schedules["gate_up"], eps),
            down=ResidualMatmul(down, down_bias, schedules["down"]),
            next_norm=next_norm,
        )

    def _schedules(self, weight: Scaled) -> dict[str, Schedule]:
        """How each op is cut up where weights have the format of `weight`."""
        matmuls = matmuls_of(self.reference.config, "fp8" if weight.data.dtype == FP8 else "bf16")
        return {matmul.op: matmul.schedule for matmul in matmuls}

    def enqueue(
        self,
        tokens: Tensor,
        cursor: Tensor,
        kv: KvCache,
        attention: SplitAttention,
        n_rows: int,
        outcome: Outcome,
        taps: Taps | None,
        logits: Tensor | None,
    ) -> None:
        """Queue a pass of `n_rows` rows, embedding to winning tokens.

        Shapes: tokens [16] int64, cursor [1] int32, both where the device reaches them; logits [16, V] fp32.
        """
        stream, mixed = self.stream, self.mixed
        cursor = self._cursor.copy_(cursor, non_blocking=True)  # every layer reads it: from memory near by
        embed(tokens, self.reference.embedding_VD, self.reference.layers[0].input_norm, stream, n_rows)
        for i, layer in enumerate(self.layers):
            if taps is not None:
                taps.keep(i, stream.residual)
            keys, values = kv.keys(i), kv.values(i)
            layer.qkv(stream, self.cos, self.sin, cursor, self.q, keys, values, n_rows)
            attention(self.q, keys, values, cursor, mixed, n_rows)
            layer.o(mixed.flat(), stream, layer.post_norm, n_rows)
            layer.gate_up(stream, self.inner, n_rows)
            then = stream if i + 1 < len(self.layers) else self.to_head
            layer.down(self.inner, then, layer.next_norm, n_rows)
        if taps is not None:
            taps.keep(len(self.layers), stream.residual)
        self.head(self.to_head, outcome.tokens, outcome.margins, n_rows, logits)


def _parts(linear: Linear) -> tuple[Scaled, Tensor | None]:
    """A matmul's weight and bias."""
    if isinstance(linear, DenseLinear):
        return Scaled(linear.weight), linear.bias
    if isinstance(linear, Fp8Linear):
        return Scaled(linear.weight, linear.scale), linear.bias
    raise ValueError(f"the streaming kernels take dense or fp8 weights, not {type(linear).__name__}")


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """What a graph is captured for."""

    n_rows: int
    taps: tuple[int, ...]
    logits: bool


class StreamedPasses:
    """Passes of one sequence through a `StreamedModel`.

    Args:
        graphs: capture each row count once and replay it; False queues the same kernels one by one.
    """

    chunk = 2048

    def __init__(self, model: StreamedModel, kv: KvCache, *, graphs: bool = True) -> None:
        config = model.reference.config
        device = model.reference.device
        self._model, self._kv, self._graphs_on = model, kv, graphs
        self._attention = SplitAttention(
            config.n_heads,
            config.n_kv_heads,
            config.head_dim,
            kv.n_slots,
            device,
        )
        pinned = device.type == "cuda"
        self._tokens = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._cursor = torch.zeros(1, dtype=torch.int32, pin_memory=pinned)
        self._out = Outcome(
            tokens=torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned),
            margins=torch.zeros(ROWS, pin_memory=pinned),
        )
        self._device = device
        self._taps: dict[tuple[int, ...], Taps] = {}
        self._logits: Tensor | None = None
        self._graphs: dict[_Shape, torch.cuda.CUDAGraph] = {}

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        reference = self._model.reference
        hidden, features = reference.hidden(ids_N, self._kv, Chunk(start, len(ids_N)), taps)
        return reference.logits(hidden[-1:]), features

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        n_rows, shape = len(tokens), _Shape(n_rows=len(tokens), taps=tuple(taps), logits=logits)
        self._tokens[:n_rows] = torch.tensor(tokens)
        self._cursor[0] = start
        self._run(shape)
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        return RowsOut(
            greedy=self._out.tokens[:n_rows].tolist(),
            margins=self._out.margins[:n_rows].tolist(),
            logits_RV=self._logits[:n_rows] if logits and self._logits is not None else None,
            features_RF=self._taps[shape.taps].features[:n_rows].clone() if taps else None,
        )

    def queue(self, n_rows: int) -> None:
        """Queue a pass over whatever the buffers hold and wait for nothing (benchmarks)."""
        self._run(_Shape(n_rows=n_rows, taps=(), logits=False))

    def _run(self, shape: _Shape) -> None:
        if not self._graphs_on or self._device.type != "cuda":
            self._enqueue(shape)
            return
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(shape)
        self._graphs[shape].replay()

    def _capture(self, shape: _Shape) -> torch.cuda.CUDAGraph:
        """Run once (kernels compile, buffers are made), then record. Rewriting the same slots is harmless."""
        self._enqueue(shape)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._enqueue(shape)
        return graph

    def _enqueue(self, shape: _Shape) -> None:
        self._model.enqueue(
            self._tokens,
            self._cursor,
            self._kv,
            self._attention,
            shape.n_rows,
            self._out,
            self._taps_of(shape.taps),
            self._logit_buffer() if shape.logits else None,
        )

    def _taps_of(self, layers: tuple[int, ...]) -> Taps | None:
        if not layers:
            return None
        if layers not in self._taps:
            self._taps[layers] = Taps(layers, self._model.stream.width, self._device)
        return self._taps[layers]

    def _logit_buffer(self) -> Tensor:
        if self._logits is None:
            vocabulary = self._model.reference.config.vocab_size
            self._logits = torch.zeros(ROWS, vocabulary, device=self._device)
        return self._logits
