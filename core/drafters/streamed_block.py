"""A block drafter behind streaming kernels: a round's features fused, the block filled, its likeliest tokens: one graph.

A layer stores the keys and values of all rows before it attends, so that rows which see as far as the last one's position
see each other both ways. Features are fused by library matmuls: a round's up to 16 at once, a prompt's padded to sizes
that are warm.
Shapes: N positions, F features, K a block's masks, V' the drafter's vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.core.drafters.block import BlockModel, Filled
from specmon.core.models.cursors import Cursors
from specmon.core.models.kv import KvCache
from specmon.core.models.prefill import FEATURES_CHUNK, chunk_plan, size_for
from specmon.core.models.replays import Replays
from specmon.core.models.streamed import StreamedModel
from specmon.kernels.attention.split import Branched, Merge, SplitAttention, merge_for
from specmon.kernels.eagle3.launch import collect
from specmon.kernels.head.likely import LikelyRows
from specmon.kernels.rope.prompt import turn_and_append
from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.stream.shapes import HeadShape
from specmon.kernels.stream.winners import WinnersOfPasses


@dataclass(frozen=True)
class _Draft:
    """Positions whose features are fused, and the block behind them: what a graph of it is captured for."""

    n_kept: int
    merge: Merge


class StreamedBlock:
    """Blocks of one sequence.

    Args:
        n_best: tokens named at each position.
        graphs: capture each kind of draft once and replay it; False queues the same kernels one by one.
    Raises: ValueError for a block of more than 15 tokens, or a weight that is neither dense nor fp8.
    """

    def __init__(self, model: BlockModel, kv: KvCache, n_best: int, *, graphs: bool = True) -> None:
        if model.n_rows > ROWS:
            raise ValueError(f"a block of {model.block_len} tokens has more than {ROWS} rows")
        config, device = model.config, model.body.device
        self._model, self._kv, self._device = model, kv, device
        self._streamed = StreamedModel(model.body)
        self._attention = SplitAttention(
            config.n_heads, config.n_kv_heads, config.head_dim, kv.n_slots, device
        )
        self._heads = HeadShape(
            n_heads=config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim
        )
        self._replays = Replays(device, graphs=graphs)
        self.captures = self._replays.captures
        pinned = device.type == "cuda"
        self._token = torch.zeros(1, dtype=torch.int64, pin_memory=pinned)
        self._token_near = torch.zeros(1, dtype=torch.int64, device=device)
        self._rows = torch.arange(ROWS, device=device)
        self._address = torch.zeros(1, dtype=torch.int64, pin_memory=pinned)
        self._token_here, self._address_here = self._token.numpy(), self._address.numpy()
        self._features = torch.zeros(ROWS, model.fc.in_features, dtype=model.fc.dtype, device=device)
        self._cursors = Cursors(device)
        self._ends = torch.zeros(ROWS, dtype=torch.int32, device=device)
        self._place = torch.zeros(2, dtype=torch.int32, device=device)
        self._won = WinnersOfPasses(1, device)
        n_tokens = len(model.to_target)
        n_best = min(n_best, n_tokens)
        self._logits = torch.zeros(ROWS, n_tokens, device=device)
        self._likely = LikelyRows(n_tokens, n_best, device, model.to_target)
        self._tokens = torch.zeros(ROWS, n_best, dtype=torch.int64, pin_memory=pinned)
        self._probs = torch.zeros(ROWS, n_best, pin_memory=pinned)
        self._tokens_here, self._probs_here = self._tokens.numpy(), self._probs.numpy()

    def keep(self, features_NF: Tensor, start: int) -> None:
        """Fuse the features of any number of confirmed positions from `start` on, and wait for nothing."""
        for at, length in chunk_plan(start, len(features_NF), FEATURES_CHUNK):
            part = features_NF[at - start : at - start + length].to(self._device)
            self._place[0].fill_(at)  # filled in the stream's order: a chunk before may still be running
            self._place[1].fill_(length)
            self._keep_rows(F.pad(part, (0, 0, 0, size_for(length) - length)))

    def draft(self, token: int, features_NF: Tensor, start: int) -> Filled:
        """Fuse the features of up to 16 positions from `start` on, and fill the block behind `token`, the next one.

        Waits for the result. Raises: ValueError for more positions, or features of another size.
        """
        n_kept = len(features_NF)
        if n_kept > ROWS or features_NF.shape[1] != self._features.shape[1]:
            raise ValueError(
                f"up to {ROWS} positions need features [N, {self._features.shape[1]}], not {list(features_NF.shape)}"
            )
        near = features_NF.to(self._device, torch.float32).contiguous()  # alive until the result is there
        self._address_here[0], self._token_here[0] = near.data_ptr(), token
        self._cursors.start_at(start)
        shape = _Draft(n_kept, merge_for(start + n_kept + self._model.n_rows))
        launches = self._replays.run(shape, partial(self._enqueue, shape))
        self._replays.wait()
        if launches is not None:
            launches += near is not features_NF  # its copy
        block = slice(self._model.block_len)
        return Filled(
            tokens=self._tokens_here[block].tolist(),
            probs=self._probs_here[block].tolist(),
            launches=launches,
        )

    def _enqueue(self, shape: _Draft) -> None:
        model, n_kept, n_rows = self._model, shape.n_kept, self._model.n_rows
        self._cursors.begin_all()
        first, last = self._cursors.first, n_kept + n_rows - 1
        torch.add(first[:1].expand(ROWS), last, out=self._ends)
        self._token_near.copy_(self._token, non_blocking=True)
        torch.index_select(model.embedding_VD, 0, self._token_near, out=model.body.embedding_VD[:1])
        if n_kept:
            self._place[:1].copy_(first[:1])
            self._place[1].fill_(n_kept)
            collect(self._address, self._features, n_kept)
            self._keep_rows(self._features)
        positions, ends = self._cursors[n_kept], self._ends
        block = Branched(positions=positions, slots=positions, prefixes=ends, own=ends[None], ends=ends)
        self._streamed.enqueue(
            self._rows,
            block,
            self._kv,
            self._attention,
            n_rows,
            self._won.here(0),
            logits=self._logits,
            first=n_rows - 1,
            merge=shape.merge,
        )
        self._likely(self._logits[1:], model.block_len, self._tokens, self._probs)

    def _keep_rows(self, features_RF: Tensor) -> None:
        """Queue keys and values of the rows that `place` names; the others are computed by the matmuls alone."""
        fused, config, rotation = self._model.fuse(features_RF), self._model.config, self._streamed.rotation
        for i, layer in enumerate(self._model.body.layers):
            turn_and_append(
                layer.attention.qkv(fused),
                layer.attention.head_norms,
                rotation.cos,
                rotation.sin,
                self._heads,
                self._kv.keys(i),
                self._kv.values(i),
                self._place,
                config.norm_eps,
            )
