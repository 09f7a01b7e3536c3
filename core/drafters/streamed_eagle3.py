"""An EAGLE-3 head behind streaming kernels: a whole draft is one CUDA graph, with nothing waited for inside.

A draft begins with rows that have real features, which `fc` widens to the head's size; each further step is one row, fed
with the winner before it and paired with the residual it left. Tokens, features and the first slot are read from static
addresses, and rows lie one after the other: the residual after row i is in place i, so that features are never copied.
Shapes: R rows, D hidden size, F features (taps · D), V' the head's vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from specmon.core.drafters.eagle3 import Eagle3Head
from specmon.core.models.cursors import REACH, Cursors
from specmon.core.models.kv import KvCache
from specmon.core.models.matmuls import eagle3_matmuls
from specmon.core.models.passes import MAX_ROWS, check_chain
from specmon.core.models.replays import Replays
from specmon.core.models.streamed_layer import Place, Rotation, StreamedLayer, buffers, parts
from specmon.kernels.attention.split import Merge, SplitAttention, merge_for
from specmon.kernels.eagle3.launch import collect, pair
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.stream.launch import HeadMatmul, Normed
from specmon.kernels.stream.scaled import ROWS, Scaled
from specmon.kernels.stream.schedule import Schedule, pair_group
from specmon.kernels.stream.winners import WinnersOfPasses


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """Target tokens and their probabilities in the head's vocabulary; `launches`: the host's, where they are counted.

    Where asked for, `logits` [steps, V'] are those each token was chosen from and `carries` [steps, D] the features
    that came with them; they are the caller's.
    """

    tokens: list[int]
    probs: list[float]
    logits: Tensor | None
    carries: Tensor | None
    launches: int | None


@dataclass(frozen=True)
class _Shape:
    """What a graph is captured for."""

    n_rows: int
    steps: int
    guesses: bool
    merge: Merge


class StreamedEagle3:
    """Drafts of one sequence.

    Args:
        graphs: capture each kind of draft once and replay it; False queues the same kernels one by one.
    Raises: ValueError where a weight is neither dense nor fp8, or has a bias the kernels do not take.
    """

    def __init__(self, head: Eagle3Head, kv: KvCache, *, graphs: bool = True) -> None:
        config, table = head.config, head.embedding_VD
        device, width = table.device, head.config.hidden_size
        self._head, self._kv, self._device = head, kv, device
        qkv, _ = parts(head.attention.qkv)
        self._layer = StreamedLayer(
            config,
            head.attention,
            head.post_norm,
            head.mlp,
            head.norm,
            self._schedules(qkv),
            entering_eps=0.0,
        )
        weight, _ = parts(head.head)
        schedule = self._schedules(weight)["head"]
        self._to_winners = HeadMatmul(weight, schedule, config.norm_eps, head.to_target)
        self._rotation = Rotation.of(head.rope, config.head_dim)
        self._entering = Normed(
            2 * width, pair_group(width), table.dtype if qkv.scale is None else FP8, device
        )
        self._stream, self._between = buffers(config, self._layer, table.dtype)
        self._to_head = self._stream.rounded_to(table.dtype if weight.scale is None else FP8)
        self._attention = SplitAttention(
            config.n_heads, config.n_kv_heads, config.head_dim, kv.n_slots, device
        )
        self._replays = Replays(device, graphs=graphs)
        self.captures = self._replays.captures
        pinned = device.type == "cuda"
        self._tokens = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._tokens_here = self._tokens.numpy()
        self._address = torch.zeros(1, dtype=torch.int64, pin_memory=pinned)
        self._features = torch.zeros(ROWS, head.fc.in_features, dtype=head.fc.dtype, device=device)
        self._residual = torch.zeros(REACH, width, device=device)
        self._cursors = Cursors(device)
        self._won = WinnersOfPasses(MAX_ROWS, device)
        self._logits: Tensor | None = None

    def _schedules(self, weight: Scaled) -> dict[str, Schedule]:
        """How each op is cut up where weights have the format of `weight`."""
        matmuls = eagle3_matmuls(self._head.config, self._head.head.out_features, weight.format)
        return {matmul.op: matmul.schedule for matmul in matmuls}

    def __call__(
        self, tokens: list[int], slot: int, features_RF: Tensor, steps: int, *, guesses: bool
    ) -> Drafted:
        """Feed up to 16 tokens from `slot` on with the features before each, and name `steps` (1 … 16) tokens after them.

        The last one named is not fed. `guesses`: keep logits and carries. Waits for the result.
        Raises: ValueError for rows or steps that cannot be.
        """
        n_rows = len(tokens)
        check_chain(n_rows, steps)
        if features_RF.shape != (n_rows, self._features.shape[1]):
            raise ValueError(
                f"{n_rows} tokens need features [{n_rows}, {self._features.shape[1]}], not {list(features_RF.shape)}"
            )
        near = features_RF.to(self._device, torch.float32).contiguous()  # alive until the result is there
        self._tokens_here[:n_rows] = tokens
        self._cursors.start_at(slot)
        self._address[0] = near.data_ptr()
        if guesses:
            self._logit_buffer()  # made before anything is counted or captured
        shape = _Shape(n_rows, steps, guesses, merge_for(slot + n_rows + steps - 1))
        launches = self._replays.run(shape, partial(self._enqueue, shape))
        self._replays.wait()
        if launches is not None:
            launches += (near is not features_RF) + 2 * guesses  # the copies of features, logits and carries
        named = slice(n_rows - 1, n_rows - 1 + steps)
        won = self._won.won
        return Drafted(
            tokens=won.tokens[:steps, 0].tolist(),
            probs=won.probs[:steps, 0].tolist(),
            logits=self._logit_buffer()[named].clone() if guesses else None,
            carries=self._residual[named].clone() if guesses else None,
            launches=launches,
        )

    def _enqueue(self, shape: _Shape) -> None:
        head, kv = self._head, self._kv
        self._cursors.begin_all()
        collect(self._address, self._features, shape.n_rows)
        features = head.fc(self._features)  # all 16 rows: the library's bits follow from their number
        tokens, n_rows, at = self._tokens, shape.n_rows, 0
        for step in range(shape.steps):
            won, residual = self._won.near(step), self._residual[at:]
            pair(
                tokens,
                head.embedding_VD,
                head.input_norm,
                features,
                head.hidden_norm,
                residual,
                self._entering,
                n_rows,
                head.config.norm_eps,
            )
            stream, to_head = self._stream.over(residual), self._to_head.over(residual)
            place = Place(self._cursors[at], kv.keys(0), kv.values(0), self._attention, shape.merge)
            self._layer(self._entering, stream, to_head, self._between, self._rotation, place, n_rows)
            logits = self._logit_buffer()[at:] if shape.guesses else None
            self._to_winners(to_head, won, n_rows, logits, first=n_rows - 1)
            tokens, features, n_rows, at = won.tokens, residual[n_rows - 1 :], 1, at + n_rows
        self._won.bring(shape.steps)

    def _logit_buffer(self) -> Tensor:
        """Logits of every row fed, in the residual's order, fp32."""
        if self._logits is None:
            self._logits = torch.zeros(REACH, self._head.head.out_features, device=self._device)
        return self._logits
