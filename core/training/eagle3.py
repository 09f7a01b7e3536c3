"""An EAGLE-3 head learns to draft from its target's features, then from its own: training-time test.

Shapes: B rows, T tokens, D hidden size, H heads, F head size, V' the head's vocabulary. Column r pairs the feature of the
token at r with the token after it. At step s it makes the (s+1)-th proposal after that token: it is fed token r+1+s and its
own feature of step s-1, is rotated at r+s, and attends to what a draft from there would: the columns up to r as they were
fed with real features, and itself at steps 1 … s.
Source: Li et al. 2025, "EAGLE-3"; `core/drafters/eagle3.py` is the inference form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from specmon.core.models.config import ModelConfig, RopeConfig
from specmon.core.models.random_weights import head_config
from specmon.core.training.corpus import Batch
from specmon.core.training.forms import (
    Attention,
    Decoder,
    Fuse,
    Heads,
    Mlp,
    Norm,
    apply,
    attend,
    rotations,
    small_random,
)
from specmon.core.training.learner import Loss, raw_config
from specmon.core.training.objective import distance
from specmon.core.training.own_vocabulary import known, likeliest, stored_with_map

_STEP_WEIGHT = 0.8  # of each step's loss, against the step before


class _MidLayer(nn.Module):
    """The layer; attention reads embedding and feature side by side, the residual stream is the feature."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(c.hidden_size, c.norm_eps)
        self.hidden_norm = Norm(c.hidden_size, c.norm_eps)
        self.self_attn = Attention(c, 2 * c.hidden_size)
        self.post_attention_layernorm = Norm(c.hidden_size, c.norm_eps)
        self.mlp = Mlp(c)


class Head(nn.Module):
    """The head's weights; `draft_ids` [V'] are the target's ids of its vocabulary, ascending."""

    draft_ids: Tensor

    def __init__(self, c: ModelConfig, n_taps: int, draft_ids: Tensor) -> None:
        super().__init__()
        self.fc = Fuse(n_taps * c.hidden_size, c.hidden_size)
        self.midlayer = _MidLayer(c)
        self.norm = Norm(c.hidden_size, c.norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, len(draft_ids), bias=False)
        self.register_buffer("draft_ids", draft_ids)
        self.config = c

    def unroll(
        self, embedded_BTD: Tensor, features_BTE: Tensor, mask_BTT: Tensor, n_steps: int
    ) -> Iterator[Tensor]:
        """What goes into `lm_head` at each step [B, T, D]. `embedded_BTD`: of each column's own token."""
        layer, length = self.midlayer, embedded_BTD.shape[1]
        cos, sin = rotations(self.config, length + n_steps, embedded_BTD.device)
        x = apply(self.fc, features_BTE).float()
        fed: list[Heads] = []
        for step in range(n_steps):
            token = layer.input_layernorm(embedded_BTD.roll(-1 - step, 1))
            both = torch.cat([token, layer.hidden_norm(x)], dim=-1)
            rotation = cos[step : step + length], sin[step : step + length]
            fed.append(layer.self_attn.heads(both, rotation))
            x = x + layer.self_attn.mix(_attend_unrolled(fed, mask_BTT))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            yield self.norm(x)


class Eagle3Learner:
    """Implements `Learner`."""

    def __init__(
        self,
        target: ModelConfig,
        *,
        taps: tuple[int, ...],
        draft_ids: Tensor,
        unroll: int,
        accept_weight: float,
        device: torch.device,
    ) -> None:
        """draft_ids [V'] int64: see `Head`."""
        rope = RopeConfig(theta=target.rope.theta)
        self._config = replace(head_config(target), rope=rope, o_bias=False, mlp_bias=False)
        self.module = Head(self._config, len(taps), draft_ids).to(device)
        self._taps, self._unroll, self._accept_weight = taps, unroll, accept_weight

    @property
    def _draft_ids(self) -> Tensor:
        return self.module.draft_ids

    @torch.no_grad()
    def begin(self, target: Decoder, seed: int, sample: Batch) -> None:
        """Small random weights; the target's own rows as the head."""
        _, features = target(sample.tokens, sample.mask_BTT(), self._taps)
        self.module.fc.measure(features[sample.answer])
        torch.manual_seed(seed)
        small_random(self.module)
        self.module.lm_head.weight.copy_(target.head_VD[self._draft_ids])

    def loss(self, target: Decoder, batch: Batch) -> Loss:
        mask = batch.mask_BTT()
        with torch.no_grad():
            taught, features = target(batch.tokens, mask, self._taps)
            embedded = target.model.embed_tokens(batch.tokens).float()
            foreseen = known(self._draft_ids, self._config.vocab_size)[likeliest(taught, target.head_VD)]
            teacher_head = target.head_VD[self._draft_ids]
        total = torch.zeros((), device=taught.device)
        n_places = torch.zeros((), device=taught.device)
        for step, out in enumerate(self.module.unroll(embedded, features, mask, self._unroll)):
            places = batch.learnt(2 + step) & foreseen.roll(-1 - step, 1)
            teacher = taught.roll(-1 - step, 1)[places]
            weight = _STEP_WEIGHT**step
            head = self.module.lm_head.weight
            total = total + weight * distance(out[places], head, teacher, teacher_head, self._accept_weight)
            n_places = n_places + weight * places.sum()
        return Loss(total, n_places)

    def agreement(self, target: Decoder, batch: Batch, draft_len: int) -> Tensor:
        mask = batch.mask_BTT()
        _, features = target(batch.tokens, mask, self._taps)
        embedded = target.model.embed_tokens(batch.tokens).float()
        right = []
        for step, out in enumerate(self.module.unroll(embedded, features, mask, draft_len)):
            chosen = self._draft_ids[apply(self.module.lm_head, out).argmax(dim=-1)]
            by_column = chosen == batch.tokens.roll(-2 - step, 1)
            right.append(by_column.roll(1, 1))  # the draft after token r+1 starts in column r
        return torch.stack(right, dim=-1)

    def tensors(self) -> dict[str, Tensor]:
        return stored_with_map(self.module, self._draft_ids, self._config.vocab_size)

    def raw_config(self) -> dict[str, Any]:
        return raw_config(self._config, "LlamaForCausalLMEagle3") | {
            "draft_vocab_size": len(self._draft_ids),
            "eagle_config": {
                "eagle_aux_hidden_state_layer_ids": list(self._taps),
                "use_aux_hidden_state": True,
            },
        }


def _attend_unrolled(fed: list[Heads], mask_BTT: Tensor) -> Tensor:
    """Attention of the last step's queries: the first step's keys within `mask_BTT`, and each later step's own key.

    Returns: [B, T, H, F].
    """
    own = torch.eye(mask_BTT.shape[1], dtype=torch.bool, device=mask_BTT.device).expand_as(mask_BTT)
    keys, values = (torch.cat(parts, dim=1) for parts in zip(*((h.k, h.v) for h in fed), strict=True))
    visible = torch.cat([mask_BTT, *(own for _ in fed[1:])], dim=2)
    return attend(Heads(fed[-1].q, keys, values), visible)
