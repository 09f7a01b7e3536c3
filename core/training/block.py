"""A block drafter learns to fill a block of tokens in one pass, from its target's features of all that is before it.

Shapes: B rows, T tokens, D hidden size, E features, A anchors a row, K a block's length, Q = A · (K + 1) rows of blocks,
V' the drafter's vocabulary. A block stands behind each anchor: the anchor's token, then K masks, which see each other and
what the target's features say of the tokens before the anchor. Every fourth token of a row is an anchor, all in one pass
whose mask keeps blocks apart; where the first one is moves on from step to step.
Source: Chen et al. 2026, "DFlash" (features as keys and values of every layer, weights that fall with the position);
`core/drafters/block.py` is the inference form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from specmon.core.models.config import ModelConfig, RopeConfig
from specmon.core.models.random_weights import head_config
from specmon.core.training.corpus import Batch
from specmon.core.training.forms import (
    Decoder,
    Fuse,
    Heads,
    Layers,
    Norm,
    apply,
    attend,
    rotations,
    small_random,
)
from specmon.core.training.learner import Loss, raw_config
from specmon.core.training.objective import distance
from specmon.core.training.own_vocabulary import known, likeliest, stored_with_map

_POSITION_WEIGHT = 0.8  # of each position's loss, against the position before
_INNER = 2  # times the hidden size
_APART = 4  # tokens from anchor to anchor


class _Body(nn.Module):
    """What features and masks go through before the vocabulary head."""

    def __init__(self, c: ModelConfig, n_taps: int, block_len: int) -> None:
        super().__init__()
        self.fc = Fuse(n_taps * c.hidden_size, c.hidden_size)
        self.hidden_norm = Norm(c.hidden_size, c.norm_eps)
        self.masks = nn.Embedding(block_len, c.hidden_size)
        self.layers = Layers(c)
        self.norm = Norm(c.hidden_size, c.norm_eps)


class BlockForm(nn.Module):
    """The drafter's weights; `draft_ids` [V'] are the target's ids of its vocabulary, ascending."""

    draft_ids: Tensor

    def __init__(self, c: ModelConfig, n_taps: int, block_len: int, draft_ids: Tensor) -> None:
        super().__init__()
        self.model = _Body(c, n_taps, block_len)
        self.lm_head = nn.Linear(c.hidden_size, len(draft_ids), bias=False)
        self.register_buffer("draft_ids", draft_ids)
        self.config, self.block_len = c, block_len

    def fill(self, embedded_BTD: Tensor, features_BTE: Tensor, mask_BTT: Tensor, anchors_A: Tensor) -> Tensor:
        """What goes into `lm_head` for the K tokens after each anchor [B, A, K, D]."""
        body, (n_rows, length) = self.model, embedded_BTD.shape[:2]
        n_anchors, size = len(anchors_A), self.block_len + 1
        cos, sin = rotations(self.config, length + size, embedded_BTD.device)
        at_Q = (anchors_A[:, None] + torch.arange(size, device=anchors_A.device)).flatten()
        masks = body.masks.weight.expand(n_rows, n_anchors, -1, -1)
        x = torch.cat([embedded_BTD[:, anchors_A, None], masks], dim=2).flatten(1, 2)
        before = body.hidden_norm(apply(body.fc, features_BTE))
        visible = self._visible(mask_BTT, anchors_A)
        for layer in body.layers:
            own = layer.self_attn.heads(layer.input_layernorm(x), (cos[at_Q], sin[at_Q]))
            _, k, v = layer.self_attn.heads(before, (cos[:length], sin[:length]))
            heads = Heads(own.q, torch.cat([k, own.k], dim=1), torch.cat([v, own.v], dim=1))
            x = x + layer.self_attn.mix(attend(heads, visible))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        filled: Tensor = body.norm(x).unflatten(1, (n_anchors, size))
        return filled[:, :, 1:]

    def _visible(self, mask_BTT: Tensor, anchors_A: Tensor) -> Tensor:
        """What rows of blocks may attend to [B, Q, T + Q]: what is before their anchor, and their own block."""
        size, places = self.block_len + 1, torch.arange(mask_BTT.shape[1], device=anchors_A.device)
        before_BAT = mask_BTT[:, anchors_A] & (places < anchors_A[:, None])
        block_Q = torch.arange(len(anchors_A), device=anchors_A.device).repeat_interleave(size)
        own_BQQ = (block_Q[:, None] == block_Q).expand(len(mask_BTT), -1, -1)
        return torch.cat([before_BAT.repeat_interleave(size, dim=1), own_BQQ], dim=2)


class BlockLearner:
    """Implements `Learner`."""

    def __init__(
        self,
        target: ModelConfig,
        *,
        taps: tuple[int, ...],
        draft_ids: Tensor,
        block_len: int,
        layers: int,
        accept_weight: float,
        device: torch.device,
    ) -> None:
        """draft_ids [V'] int64: see `BlockForm`."""
        self._config = replace(
            head_config(target),
            n_layers=layers,
            intermediate_size=_INNER * target.hidden_size,
            rope=RopeConfig(theta=target.rope.theta),
            o_bias=False,
            mlp_bias=False,
        )
        self.module = BlockForm(self._config, len(taps), block_len, draft_ids).to(device)
        self._taps, self._accept_weight = taps, accept_weight

    @torch.no_grad()
    def begin(self, target: Decoder, seed: int, sample: Batch) -> None:
        """Small random weights, masks as large as the target's embeddings; the target's own rows as the head."""
        _, features = target(sample.tokens, sample.mask_BTT(), self._taps)
        self.module.model.fc.measure(features[sample.answer])
        torch.manual_seed(seed)
        small_random(self.module)
        masks, spread = self.module.model.masks.weight, target.model.embed_tokens.weight.float().std()
        masks.copy_(spread * torch.randn(masks.shape).to(masks.device))
        self.module.lm_head.weight.copy_(target.head_VD[self.module.draft_ids])

    def loss(self, target: Decoder, batch: Batch) -> Loss:
        mask, form = batch.mask_BTT(), self.module
        with torch.no_grad():
            taught, features = target(batch.tokens, mask, self._taps)
            embedded = target.model.embed_tokens(batch.tokens).float()
            foreseen = known(form.draft_ids, self._config.vocab_size)[likeliest(taught, target.head_VD)]
            teacher_head = target.head_VD[form.draft_ids]
        anchors = _anchors(batch, batch.turn % _APART)
        filled = form.fill(embedded, features, mask, anchors)
        total = torch.zeros((), device=taught.device)
        n_places = torch.zeros((), device=taught.device)
        for i in range(form.block_len):
            places = (batch.learnt(1 + i) & foreseen.roll(-i, 1))[:, anchors]
            teacher = taught.roll(-i, 1)[:, anchors][places]
            weight, head = _POSITION_WEIGHT**i, form.lm_head.weight
            missed = distance(filled[:, :, i][places], head, teacher, teacher_head, self._accept_weight)
            total, n_places = total + weight * missed, n_places + weight * places.sum()
        return Loss(total, n_places)

    def agreement(self, target: Decoder, batch: Batch, draft_len: int) -> Tensor:
        """Raises: ValueError for a draft longer than the block."""
        mask, form = batch.mask_BTT(), self.module
        if draft_len > form.block_len:
            raise ValueError(f"a block of {form.block_len} drafts no {draft_len} tokens")
        _, features = target(batch.tokens, mask, self._taps)
        embedded = target.model.embed_tokens(batch.tokens).float()
        ahead = torch.stack([batch.tokens.roll(-1 - i, 1) for i in range(draft_len)], dim=-1)
        right = torch.zeros_like(ahead, dtype=torch.bool)
        for first in range(_APART):
            anchors = _anchors(batch, first)
            filled = form.fill(embedded, features, mask, anchors)[:, :, :draft_len]
            chosen = form.draft_ids[apply(form.lm_head, filled).argmax(dim=-1)]
            right[:, anchors] = chosen == ahead[:, anchors]
        return right

    def tensors(self) -> dict[str, Tensor]:
        return stored_with_map(self.module, self.module.draft_ids, self._config.vocab_size)

    def raw_config(self) -> dict[str, Any]:
        return raw_config(self._config, "LlamaBlockDrafter") | {
            "draft_vocab_size": len(self.module.draft_ids),
            "block_config": {"target_layers": list(self._taps)},
        }


def _anchors(batch: Batch, first: int) -> Tensor:
    """Every fourth token from `first` on [A]."""
    return torch.arange(first, batch.tokens.shape[1], _APART, device=batch.tokens.device)
