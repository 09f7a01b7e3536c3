"""A block drafter: all tokens of a draft in one pass, from the target's own features of the text before it.

The last confirmed token and K masks go through a few layers and see each other, in both directions. The target's features
of every confirmed position before them are fused by `fc` once and kept as keys and values of each layer, position p's in
slot p; the block's own, from the last confirmed token's position on, are written over by what comes next.

Each position has a distribution of its own, which does not hang on what the others turn out to be. Of these the likeliest
tokens are drafted, as a chain or a tree. Sampling stays lossless whatever the distributions are: the target draws its
token at a position with noise that is a function of seed, position and token alone (`decoders/choose.py`), from its own
distribution after the tokens accepted before, and a drafted token stays just when it is the one drawn. So nobody need know
how likely the draft took it to be, nor need its positions agree with each other.

Shapes: N positions, F features, D hidden size, K a block's masks, V' the drafter's vocabulary.
Source: Chen et al. 2026, "DFlash".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.core.drafters.base import Arrived, DrafterInfo, Outcome, Prepared, Proposal, Work
from specmon.core.drafters.best_first import best_first
from specmon.core.models.config import ModelConfig
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Block
from specmon.core.models.replays import wait_for
from specmon.core.models.transformer import Layer
from specmon.kernels.head.reference import top_rows
from specmon.kernels.linear import Linear
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.reference import RopeTable

#: Most positions whose features are fused at once.
_CHUNK = 2048


@dataclass(frozen=True, kw_only=True)
class BlockModel:
    """The drafter's weights. `to_target` [V'] maps its indices to target token ids."""

    config: ModelConfig
    tap_layers: tuple[int, ...]
    embedding_VD: Tensor
    masks_KD: Tensor
    fc: Linear
    hidden_norm: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Linear
    to_target: Tensor
    rope: RopeTable

    @property
    def block_len(self) -> int:
        return len(self.masks_KD)

    @property
    def weight_bytes(self) -> int:
        """Bytes a draft reads, the fusing of the features before it included."""
        per_layer = [(y.attention.qkv, y.attention.o, y.mlp.gate_up, y.mlp.down) for y in self.layers]
        linears = [self.fc, *(linear for four in per_layer for linear in four), self.head]
        return sum(linear.weight_bytes for linear in linears)

    def keep(self, features_NF: Tensor, kv: KvCache, start: int) -> None:
        """Keys and values of the confirmed positions from `start` on."""
        fused_ND = rmsnorm(self.fc(features_NF).float(), self.hidden_norm, self.config.norm_eps)
        rotation = self.rope.rows(slice(start, start + len(fused_ND)))
        for i, layer in enumerate(self.layers):
            layer.attention.keep(fused_ND, self.config, rotation, kv, i, start, len(fused_ND))

    def fill(self, token: int, kv: KvCache, position: int) -> Tensor:
        """Logits [K, V'] of the tokens after `token`, which stands at `position`."""
        eps = self.config.norm_eps
        x_RD = torch.cat([self.embedding_VD[token : token + 1], self.masks_KD]).float()
        placement = Block(position, len(x_RD))
        rotation = self.rope.rows(placement.positions)
        for i, layer in enumerate(self.layers):
            h_RD = rmsnorm(x_RD, layer.input_norm, eps)
            x_RD += layer.attention(h_RD, self.config, rotation, kv, i, placement)
            x_RD += layer.mlp(rmsnorm(x_RD, layer.post_norm, eps))
        return self.head(rmsnorm(x_RD[1:], self.norm, eps))


class BlockDrafter:
    """Implements `Drafter`, without branches. It proposes no more than a block, as a chain or a tree of `n_nodes` nodes.

    Raises: ValueError where features are not handed on one by one.
    """

    def __init__(self, model: BlockModel, kv: KvCache, label: str, n_nodes: int = 0) -> None:
        self._model, self._kv, self._n_nodes = model, kv, n_nodes
        self.info = DrafterInfo(
            kind="block",
            label=label,
            tap_layers=model.tap_layers,
            weight_bytes=model.weight_bytes,
            kv_bytes_per_token=kv.bytes_per_token,
            may_fall_short=True,
        )
        self._context: list[int] = []
        self._kept = 0  # positions below this have their keys and values
        self._unkept: list[Tensor] = []  # features of those from there on
        self._work = Work()

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._keep_all()
        if self._context[:first] != tokens[:first] or first > self._kept:
            raise ValueError(f"features start at {first}, but those of positions before are not here")
        self._context, self._kept = list(tokens), first
        self._take(features_NF)
        self._keep_all()
        wait_for(self._device)

    def draft(self, draft_len: int) -> Proposal:
        self._keep_all()
        logits_KV = self._model.fill(self._context[-1], self._kv, self._kept)[:draft_len]
        end = self._kept + 1 + self._model.block_len
        self._work += Work(
            forwards=1,
            weight_bytes=self.info.weight_bytes,
            kv_bytes=end * self.info.kv_bytes_per_token,
            launches=None,
        )
        index, probs = top_rows(logits_KV, min(max(self._n_nodes, 1), logits_KV.shape[1]))
        return self._proposal(self._model.to_target[index].tolist(), probs.tolist())

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        """Raises: ValueError, as a block starts from features that are not known before the outcome."""
        raise ValueError("a block drafter prepares no branches")

    def commit(self, outcome: Outcome) -> None:
        self._context += [*outcome.accepted, outcome.bonus]
        self._take(outcome.features_AF)

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        """Raises: ValueError, as `prepare`."""
        raise ValueError("a block drafter has no branches to adopt")

    def take_work(self) -> Work:
        work, self._work = self._work, Work()
        return work

    @property
    def _device(self) -> torch.device:
        return self._model.embedding_VD.device

    def _take(self, features_NF: Tensor | None) -> None:
        """Features of the positions up to the last confirmed token, which has none yet."""
        before = self._kept + sum(map(len, self._unkept))
        if features_NF is None or before + len(features_NF) != len(self._context) - 1:
            raise ValueError(f"{len(self._context) - 1 - before} more positions need as many features")
        self._unkept.append(features_NF)

    def _keep_all(self) -> None:
        """Fuse what came since the last draft."""
        for features_NF in self._unkept:
            for piece in torch.split(features_NF, _CHUNK):
                self._model.keep(piece.to(self._device), self._kv, self._kept)
                self._kept += len(piece)
        self._unkept = []

    def _proposal(self, tokens_KR: list[list[int]], probs_KR: list[list[float]]) -> Proposal:
        if not self._n_nodes:
            return Proposal(
                tokens=tuple(tokens[0] for tokens in tokens_KR), probs=tuple(probs[0] for probs in probs_KR)
            )
        nodes = best_first(probs_KR, self._n_nodes)
        return Proposal(
            tokens=tuple(tokens_KR[node.depth][node.rank] for node in nodes),
            probs=tuple(probs_KR[node.depth][node.rank] for node in nodes),
            parents=tuple(node.parent for node in nodes),
        )
