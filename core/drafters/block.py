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
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specmon.core.drafters.base import Arrived, DrafterInfo, Outcome, Prepared, Proposal, Work
from specmon.core.drafters.best_first import best_first
from specmon.core.models.config import ModelConfig
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.placement import Block
from specmon.core.models.pool import Progress
from specmon.core.models.prefill import FEATURES_CHUNK, SIZES
from specmon.core.models.recipe import Recipe
from specmon.core.models.replays import wait_for
from specmon.core.models.transformer import Transformer
from specmon.kernels.head.reference import top_rows
from specmon.kernels.linear import Linear
from specmon.kernels.registry import TRITON
from specmon.kernels.rmsnorm.reference import rmsnorm

if TYPE_CHECKING:
    from specmon.core.drafters.streamed_block import StreamedBlock


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A block's likeliest target tokens [K][n] at each position, best first, and their probabilities alike.

    `launches`: the host's, where they are counted.
    """

    tokens: list[list[int]]
    probs: list[list[float]]
    launches: int | None = None


@dataclass(frozen=True, kw_only=True)
class BlockModel:
    """The drafter's weights. `to_target` [V'] maps its indices to target token ids.

    `body` is what a block goes through; its embedding holds the masks [1 + K, D] behind a row for the token before them.
    """

    body: Transformer
    tap_layers: tuple[int, ...]
    embedding_VD: Tensor
    fc: Linear
    hidden_norm: Tensor
    to_target: Tensor

    @property
    def config(self) -> ModelConfig:
        return self.body.config

    @property
    def n_rows(self) -> int:
        """Rows of a block's pass: the token before it, and its masks."""
        return len(self.body.embedding_VD)

    @property
    def block_len(self) -> int:
        return self.n_rows - 1

    @property
    def weight_bytes(self) -> int:
        """Bytes a draft reads, the fusing of the features before it included."""
        return self.fc.weight_bytes + self.body.weight_bytes

    def fuse(self, features_NF: Tensor) -> Tensor:
        """What keys and values of the layers are made of [N, D]."""
        return rmsnorm(self.fc(features_NF).float(), self.hidden_norm, self.config.norm_eps)

    def keep(self, features_NF: Tensor, kv: KvCache, start: int) -> None:
        """Keys and values of the confirmed positions from `start` on."""
        for piece_NF in torch.split(features_NF, FEATURES_CHUNK):
            fused_ND = self.fuse(piece_NF)
            rotation = self.body.rope.rows(slice(start, start + len(fused_ND)))
            for i, layer in enumerate(self.body.layers):
                layer.attention.keep(fused_ND, self.config, rotation, kv, i, start, len(fused_ND))
            start += len(fused_ND)

    def fill(self, token: int, kv: KvCache, position: int) -> Tensor:
        """Logits [K, V'] of the tokens after `token`, which stands at `position`."""
        self.body.embedding_VD[0] = self.embedding_VD[token]
        rows = torch.arange(self.n_rows, device=self.body.device)
        hidden_RD, _ = self.body.hidden(rows, kv, Block(position, self.n_rows))
        return self.body.logits(hidden_RD[1:])


class BlockDrafter:
    """Implements `Drafter`, without branches. It proposes no more than a block, as a chain or a tree of `n_nodes` nodes.

    Args:
        drafts: fills blocks in one piece, where kernels can.
    Raises: ValueError where features are not handed on one by one.
    """

    def __init__(
        self,
        model: BlockModel,
        kv: KvCache,
        label: str,
        n_nodes: int = 0,
        drafts: StreamedBlock | None = None,
    ) -> None:
        self._model, self._kv, self._n_nodes, self._drafts = model, kv, n_nodes, drafts
        self.info = DrafterInfo(
            kind="block",
            label=label,
            tap_layers=model.tap_layers,
            weight_bytes=model.weight_bytes,
            kv_bytes_per_token=kv.bytes_per_token,
            may_fall_short=True,
            longest=model.block_len,
        )
        self._context: list[int] = []
        self._kept = 0  # positions below this have their keys and values
        # Features of those from there on, wherever they are.
        self._unkept = torch.zeros(0, model.fc.in_features)
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
        filled = self._fill()
        end = self._kept + 1 + self._model.block_len
        self._work += Work(
            forwards=1,
            weight_bytes=self.info.weight_bytes,
            kv_bytes=end * self.info.kv_bytes_per_token,
            launches=filled.launches,
        )
        return self._proposal(filled.tokens[:draft_len], filled.probs[:draft_len])

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

    def warm(self, draft_len: int, progress: Progress) -> None:
        """Draft after each number of tokens a round may confirm, so that nothing is compiled or captured in a turn."""
        if self._drafts is None:
            return
        for size in (size for size in SIZES if size <= min(FEATURES_CHUNK, self._kv.n_slots)):
            self._drafts.keep(torch.zeros(size, self._model.fc.in_features), 0)
        most = min(draft_len + 1, MAX_ROWS)
        for n_kept in range(most + 1):
            if self._drafts.captures:
                progress(f"capturing graphs: a block after {n_kept} tokens", n_kept / (most + 1))
            self._drafts.draft(0, torch.zeros(n_kept, self._model.fc.in_features), 0)

    def take_work(self) -> Work:
        work, self._work = self._work, Work()
        return work

    @property
    def _device(self) -> torch.device:
        return self._model.embedding_VD.device

    def _take(self, features_NF: Tensor | None) -> None:
        """Features of the positions up to the last confirmed token, which has none yet."""
        lacking = len(self._context) - 1 - self._kept - len(self._unkept)
        if features_NF is None or len(features_NF) != lacking:
            raise ValueError(f"{lacking} more positions need as many features")
        self._unkept = torch.cat([self._unkept, features_NF]) if len(self._unkept) else features_NF

    def _keep_all(self) -> None:
        """Fuse what came since the last draft."""
        if len(self._unkept):
            if self._drafts is None:
                self._model.keep(self._unkept.to(self._device), self._kv, self._kept)
            else:
                self._drafts.keep(self._unkept, self._kept)
            self._all_are_kept()

    def _all_are_kept(self) -> None:
        self._kept, self._unkept = self._kept + len(self._unkept), self._unkept[:0]

    def _fill(self) -> Filled:
        """The likeliest tokens at each position of the block behind the last token."""
        token = self._context[-1]
        if self._drafts is None or len(self._unkept) > MAX_ROWS:
            self._keep_all()
        if self._drafts is None:
            logits_KV = self._model.fill(token, self._kv, self._kept)
            index, probs = top_rows(logits_KV, min(max(self._n_nodes, 1), logits_KV.shape[1]))
            return Filled(tokens=self._model.to_target[index].tolist(), probs=probs.tolist())
        filled = self._drafts.draft(token, self._unkept, self._kept)
        self._all_are_kept()
        return filled

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


def stream_block(
    model: BlockModel, kv: KvCache, recipe: Recipe, n_nodes: int, *, graphs: bool
) -> StreamedBlock | None:
    """Whole blocks where the recipe's backend has streaming kernels (Triton is imported only then) and they fit in."""
    if recipe.backend != TRITON.label or model.n_rows > MAX_ROWS:
        return None
    from specmon.core.drafters.streamed_block import StreamedBlock

    return StreamedBlock(model, kv, max(n_nodes, 1), graphs=graphs)
