"""A draft model learns its target's distribution: a small Llama of the target's vocabulary, head and embedding tied."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from specmon.core.models.config import ModelConfig, RopeConfig
from specmon.core.training.corpus import Batch
from specmon.core.training.forms import Decoder
from specmon.core.training.learner import Loss, raw_config
from specmon.core.training.objective import distance

_HEAD_DIM = 64
_INNER = 3  # times the hidden size
_QUERIES = 2  # heads a KV head
_EMBEDDING_RMS = 0.05  # at the beginning: logits near 1


def draft_config(target: ModelConfig, hidden: int, layers: int) -> ModelConfig:
    """A Llama of `layers` layers for `target`; `hidden` is a multiple of 64, or less. Raises: ValueError."""
    head_dim = min(_HEAD_DIM, hidden)
    if hidden % head_dim or head_dim % 2:
        raise ValueError(f"hidden size {hidden} is no multiple of {_HEAD_DIM}")
    n_heads = hidden // head_dim
    return ModelConfig(
        family="llama",
        vocab_size=target.vocab_size,
        hidden_size=hidden,
        intermediate_size=_INNER * hidden,
        n_layers=layers,
        n_heads=n_heads,
        n_kv_heads=n_heads // _QUERIES if n_heads % _QUERIES == 0 else n_heads,
        head_dim=head_dim,
        norm_eps=target.norm_eps,
        rope=RopeConfig(theta=target.rope.theta),
        context_length=target.context_length,
        tied_head=True,
        qkv_bias=False,
        eos_ids=target.eos_ids,
        bos_id=target.bos_id,
    )


class DraftLearner:
    """Implements `Learner`."""

    def __init__(self, config: ModelConfig, accept_weight: float, device: torch.device) -> None:
        self.module = Decoder(config, tied=True).to(device)
        self._config, self._accept_weight = config, accept_weight

    @torch.no_grad()
    def begin(self, target: Decoder, seed: int, sample: Batch) -> None:
        """Small random layers, and the target's embedding along its main directions."""
        torch.manual_seed(seed)
        for module in self.module.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.copy_(0.02 * torch.randn(module.weight.shape))
        table = target.model.embed_tokens.weight.float()
        _, directions = torch.linalg.eigh(table.T @ table)  # the main ones last
        main = table @ directions[:, -self._config.hidden_size :]
        main *= _EMBEDDING_RMS / main.square().mean().sqrt()
        self.module.model.embed_tokens.weight[:, : main.shape[1]] = main

    def loss(self, target: Decoder, batch: Batch) -> Loss:
        mask, places = batch.mask_BTT(), batch.learnt(1)
        with torch.no_grad():
            taught, _ = target(batch.tokens, mask)
        hidden, _ = self.module(batch.tokens, mask)
        head = self.module.head_VD
        total = distance(hidden[places], head, taught[places], target.head_VD, self._accept_weight)
        return Loss(total, places.sum())

    def agreement(self, target: Decoder, batch: Batch, draft_len: int) -> Tensor:
        hidden, _ = self.module(batch.tokens, batch.mask_BTT())
        chosen = torch.stack([F.linear(row, self.module.head_VD).argmax(dim=-1) for row in hidden])
        right = chosen == batch.tokens.roll(-1, 1)
        return torch.stack([right.roll(-k, 1) for k in range(draft_len)], dim=-1)

    def tensors(self) -> dict[str, Tensor]:
        return self.module.state_dict()

    def raw_config(self) -> dict[str, Any]:
        return raw_config(self._config, "LlamaForCausalLM")
