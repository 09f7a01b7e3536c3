"""A chunk of a prompt through the Triton backend: library matmuls, and one kernel for all that lies between two of them.

A chunk runs padded to the smallest of SIZES that holds it, one CUDA graph a size. Where it stands and how many rows are
real is read on the device: rows past them are computed by the matmuls alone, stored nowhere and seen by none. So the bits
follow from (start, length), and a graph serves every position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.prefill import SIZES, size_for
from specmon.core.models.replays import Replays
from specmon.core.models.taps import TapBuffers
from specmon.core.models.transformer import Transformer
from specmon.kernels.attention.prompt import attend_prompt
from specmon.kernels.rmsnorm.prompt import add_and_norm, embed_and_norm
from specmon.kernels.rope.prompt import turn_and_append
from specmon.kernels.stream.shapes import HeadShape
from specmon.kernels.swiglu.prompt import gate


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """What a graph is captured for."""

    size: int
    taps: tuple[int, ...]


class PromptPasses:
    """Prompt chunks of one sequence.

    Args:
        cos, sin: [positions, D/2] fp32.
        graphs: capture each size once and replay it; False queues the same kernels one by one.
    """

    chunk = SIZES[-1]
    first_chunks = SIZES[:3]

    def __init__(
        self, model: Transformer, cos: Tensor, sin: Tensor, kv: KvCache, *, graphs: bool = True
    ) -> None:
        config, self._device = model.config, model.device
        self._model, self._kv, self._cos, self._sin = model, kv, cos, sin
        self._shape = HeadShape(
            n_heads=config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim
        )
        self._replays = Replays(self._device, graphs=graphs, repeat=False)
        self._ids = torch.zeros(self.chunk, dtype=torch.int64, device=self._device)
        self._place = torch.zeros(2, dtype=torch.int32, device=self._device)
        self._logits = torch.zeros(1, config.vocab_size, dtype=model.head.dtype, device=self._device)
        self._taps = TapBuffers(config.hidden_size, self.chunk, self._device)

    def __call__(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Run one chunk from position `start`; waits for the device only where a size is captured.

        Returns: logits [1, V] after its last token, features [N, F] or None, both the caller's own.
        Raises: ValueError for a chunk that is empty, longer than `chunk` or does not fit the cache.
        """
        n_rows = len(ids_N)
        if not 1 <= n_rows <= self.chunk or start < 0 or start + n_rows > self._kv.n_slots:
            raise ValueError(
                f"{n_rows} rows from {start} in chunks of {self.chunk} and a cache of {self._kv.n_slots}"
            )
        self._ids[:n_rows] = ids_N
        self._place[0].fill_(start)  # filled in the stream's order: a chunk before may still be running
        self._place[1].fill_(n_rows)
        shape = _Shape(size=size_for(n_rows), taps=tuple(taps))
        kept = self._taps.of(shape.taps)  # made before anything is captured
        self._replays.run(shape, partial(self._enqueue, shape))
        return self._logits.clone(), kept.features[:n_rows].clone() if kept is not None else None

    def _enqueue(self, shape: _Shape) -> None:
        """Queue a chunk of shape.size rows, token ids to logits."""
        model, config, place = self._model, self._model.config, self._place
        layers, eps, taps = model.layers, config.norm_eps, self._taps.of(shape.taps)
        residual = torch.empty(shape.size, config.hidden_size, device=self._device)
        h = embed_and_norm(
            self._ids,
            model.embedding_VD,
            residual,
            layers[0].input_norm,
            eps,
            place,
            layers[0].attention.qkv.dtype,
        )
        for i, layer in enumerate(layers):
            if taps is not None:
                taps.keep(i, residual)
            y = self._attend(i, h)
            h = add_and_norm(y, residual, layer.post_norm, eps, place, layer.mlp.gate_up.dtype)
            y = layer.mlp.down(gate(layer.mlp.gate_up(h), place, layer.mlp.down.dtype))
            last = i + 1 == len(layers)
            norm = model.norm if last else layers[i + 1].input_norm
            dtype = model.head.dtype if last else layers[i + 1].attention.qkv.dtype
            h = add_and_norm(y, residual, norm, eps, place, dtype)
        if taps is not None:
            taps.keep(len(layers), residual)
        self._logits.copy_(model.head(h.index_select(0, place[1:] - 1)))

    def _attend(self, i: int, h: Tensor) -> Tensor:
        """A layer's attention block up to its output projection. Shapes: h [N, D] -> [N, D]."""
        own, keys, values = self._model.layers[i].attention, self._kv.keys(i), self._kv.values(i)
        q = turn_and_append(
            own.qkv(h),
            own.head_norms,
            self._cos,
            self._sin,
            self._shape,
            keys,
            values,
            self._place,
            self._model.config.norm_eps,
        )
        return own.o(attend_prompt(q, keys, values, self._place, own.o.dtype).flatten(1))
