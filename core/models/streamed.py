"""The Triton backend: decode rows through streaming kernels, one CUDA graph a row count.

Prompts run through the reference model's own layers on the same weights; up to 16 rows of decode through fused kernels
whose sums have one order for every row count. A graph holds a whole pass, from token ids in pinned memory to winning tokens
in pinned memory: one launch, nothing waited for inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.passes import RowsOut
from specmon.core.models.placement import Chunk
from specmon.core.models.transformer import Layer, Transformer
from specmon.kernels.attention.split import SplitAttention
from specmon.kernels.linear import DenseLinear, Linear
from specmon.kernels.stream.launch import (
    HeadMatmul,
    HeadShape,
    QkvMatmul,
    ResidualMatmul,
    Stream,
    SwigluMatmul,
    embed,
)
from specmon.kernels.stream.matmul import ROWS
from specmon.kernels.stream.schedule import schedule_for


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

    Raises: ValueError where a weight is not dense, or has a bias the kernels do not take.
    """

    def __init__(self, reference: Transformer) -> None:
        config, device = reference.config, reference.device
        self.reference = reference
        self.shape = HeadShape(n_heads=config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim)
        half = config.head_dim // 2
        self.cos = reference.rope.cos[:, 0, :half].contiguous()
        self.sin = reference.rope.sin[:, 0, half:].contiguous()
        dtype = reference.embedding_VD.dtype
        norms = [layer.input_norm for layer in reference.layers[1:]] + [reference.norm]
        self.layers = [self._layer(layer, norm) for layer, norm in zip(reference.layers, norms, strict=True)]
        head = _dense(reference.head)
        self.head = HeadMatmul(head.weight, schedule_for("head", *head.weight.shape), config.norm_eps)
        self.stream = Stream(config.hidden_size, self.layers[0].o.schedule.bn, dtype, device)
        heads = (ROWS, config.n_heads, config.head_dim)
        self.q = torch.zeros(heads, dtype=dtype, device=device)
        self.mixed = torch.zeros(heads, dtype=dtype, device=device)
        self.inner = torch.zeros(ROWS, config.intermediate_size, dtype=dtype, device=device)

    def _layer(self, layer: Layer, next_norm: Tensor) -> _StreamedLayer:
        eps = self.reference.config.norm_eps
        qkv, o = _dense(layer.attention.qkv), _dense(layer.attention.o)
        gate_up, down = _dense(layer.mlp.gate_up), _dense(layer.mlp.down)
        if gate_up.bias is not None:
            raise ValueError("the streaming kernels take no bias on gate and up")
        q_norm, k_norm = layer.attention.q_norm, layer.attention.k_norm
        norms = (q_norm, k_norm) if q_norm is not None and k_norm is not None else None
        n, k = qkv.weight.shape
        return _StreamedLayer(
            qkv=QkvMatmul(
                qkv.weight,
                qkv.bias,
                norms,
                self.shape,
                schedule_for("qkv", n, k, bn=self.shape.head_dim),
                eps,
            ),
            o=ResidualMatmul(o.weight, o.bias, schedule_for("o", *o.weight.shape)),
            post_norm=layer.post_norm,
            gate_up=SwigluMatmul(
                gate_up.weight,
                schedule_for("gate_up", gate_up.weight.shape[0] // 2, gate_up.weight.shape[1]),
                eps,
            ),
            down=ResidualMatmul(down.weight, down.bias, schedule_for("down", *down.weight.shape)),
            next_norm=next_norm,
        )

    def enqueue(
        self,
        tokens: Tensor,
        cursor: Tensor,
        kv: KvCache,
        attention: SplitAttention,
        n_rows: int,
        taps: Sequence[int],
        features: Tensor | None,
        logits: Tensor | None,
    ) -> None:
        """Queue a pass of `n_rows` rows: embedding to winning tokens (in `head.tokens`, `head.margins`).

        Shapes: tokens [16] int64, cursor [1] int32 on the device; features [16, taps · D] fp32; logits [16, V] fp32.
        """
        stream, width = self.stream, self.stream.width
        embed(tokens, self.reference.embedding_VD, self.reference.layers[0].input_norm, stream, n_rows)
        flat = self.mixed.view(ROWS, -1)
        for i, layer in enumerate(self.layers):
            self._tap(i, taps, features, width)
            keys, values = kv.keys(i), kv.values(i)
            layer.qkv(stream, self.cos, self.sin, cursor, self.q, keys, values, n_rows)
            attention(self.q, keys, values, cursor, self.mixed, n_rows)
            layer.o(flat, stream, layer.post_norm, n_rows)
            layer.gate_up(stream, self.inner, n_rows)
            layer.down(self.inner, stream, layer.next_norm, n_rows)
        self._tap(len(self.layers), taps, features, width)
        self.head(stream, n_rows, logits)

    def _tap(self, layer: int, taps: Sequence[int], features: Tensor | None, width: int) -> None:
        if features is not None and layer in taps:
            place = list(taps).index(layer)
            features[:, place * width : (place + 1) * width] = self.stream.residual


def _dense(linear: Linear) -> DenseLinear:
    if not isinstance(linear, DenseLinear):
        raise ValueError(f"the streaming kernels take dense weights, not {type(linear).__name__}")
    return linear


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
            config.n_heads, config.n_kv_heads, config.head_dim, kv.n_slots, device
        )
        pinned = device.type == "cuda"
        self._tokens_in = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._cursor_in = torch.zeros(1, dtype=torch.int32, pin_memory=pinned)
        self._tokens_out = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._margins_out = torch.zeros(ROWS, pin_memory=pinned)
        self._tokens = torch.zeros(ROWS, dtype=torch.int64, device=device)
        self._cursor = torch.zeros(1, dtype=torch.int32, device=device)
        self._features: dict[tuple[int, ...], Tensor] = {}
        self._logits: Tensor | None = None
        self._graphs: dict[_Shape, torch.cuda.CUDAGraph] = {}

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        reference = self._model.reference
        hidden, features = reference.hidden(ids_N, self._kv, Chunk(start, len(ids_N)), taps)
        return reference.logits(hidden[-1:]), features

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        shape = _Shape(n_rows=len(tokens), taps=tuple(taps), logits=logits)
        self._tokens_in[: len(tokens)] = torch.tensor(tokens)
        self._cursor_in[0] = start
        self._run(shape)
        if self._tokens.is_cuda:
            torch.cuda.current_stream(self._tokens.device).synchronize()
        features = self._features[shape.taps][: len(tokens)].clone() if taps else None
        return RowsOut(
            greedy=self._tokens_out[: len(tokens)].tolist(),
            margins=self._margins_out[: len(tokens)].tolist(),
            logits_RV=self._logits[: len(tokens)] if logits and self._logits is not None else None,
            features_RF=features,
        )

    def queue(self, n_rows: int) -> None:
        """Queue a pass over whatever the buffers hold and wait for nothing (benchmarks)."""
        self._run(_Shape(n_rows=n_rows, taps=(), logits=False))

    def _run(self, shape: _Shape) -> None:
        if not self._graphs_on or not self._tokens.is_cuda:
            self._enqueue(shape)
            return
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(shape)
        self._graphs[shape].replay()

    def _capture(self, shape: _Shape) -> torch.cuda.CUDAGraph:
        """Run once (kernels compile, buffers are made), then record. Rewriting the same slots is harmless."""
        self._enqueue(shape)
        torch.cuda.synchronize(self._tokens.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._enqueue(shape)
        return graph

    def _enqueue(self, shape: _Shape) -> None:
        model = self._model
        self._tokens.copy_(self._tokens_in, non_blocking=True)
        self._cursor.copy_(self._cursor_in, non_blocking=True)
        features = self._feature_buffer(shape.taps)
        model.enqueue(
            self._tokens,
            self._cursor,
            self._kv,
            self._attention,
            shape.n_rows,
            shape.taps,
            features,
            self._logit_buffer(shape),
        )
        self._tokens_out.copy_(model.head.tokens, non_blocking=True)
        self._margins_out.copy_(model.head.margins, non_blocking=True)

    def _feature_buffer(self, taps: tuple[int, ...]) -> Tensor | None:
        if not taps:
            return None
        if taps not in self._features:
            width = len(taps) * self._model.stream.width
            self._features[taps] = torch.zeros(ROWS, width, device=self._tokens.device)
        return self._features[taps]

    def _logit_buffer(self, shape: _Shape) -> Tensor | None:
        if not shape.logits:
            return None
        if self._logits is None:
            vocabulary = self._model.reference.config.vocab_size
            self._logits = torch.zeros(ROWS, vocabulary, device=self._tokens.device)
        return self._logits
