"""What the training loop asks of a drafter in training form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from specmon.core.models.config import ModelConfig
from specmon.core.training.corpus import Batch
from specmon.core.training.forms import Decoder


class Loss(NamedTuple):
    """Summed over `n_places` (both scalar tensors)."""

    total: Tensor
    n_places: Tensor


class Learner(Protocol):
    """A drafter; the parameters of `module` are what is learnt."""

    @property
    def module(self) -> nn.Module: ...

    def begin(self, target: Decoder, seed: int, sample: Batch) -> None:
        """Choose the weights it starts from. `sample`: text that it will learn from, or such as that."""
        ...

    def loss(self, target: Decoder, batch: Batch) -> Loss:
        """How far its proposals are from the target."""
        ...

    def agreement(self, target: Decoder, batch: Batch, draft_len: int) -> Tensor:
        """Whether its k-th proposal after each token is the token of the text there [B, T, draft_len] bool.

        Each is proposed as if those before it had been accepted.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """What its file holds, under published names."""
        ...

    def raw_config(self) -> dict[str, Any]:
        """Its config.json."""
        ...


def put(tensors: Mapping[str, Tensor], module: nn.Module) -> None:
    """Let a learner's `module` go on with the weights that its file holds."""
    module.load_state_dict(
        {**module.state_dict(), **{name: tensors[name] for name, _ in module.named_parameters()}}
    )


def raw_config(c: ModelConfig, architecture: str) -> dict[str, Any]:
    """A Llama of shape `c` as Hugging Face writes it."""
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.n_layers,
        "num_attention_heads": c.n_heads,
        "num_key_value_heads": c.n_kv_heads,
        "head_dim": c.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": c.context_length,
        "rms_norm_eps": c.norm_eps,
        "rope_theta": c.rope.theta,
        "rope_scaling": None,
        "tie_word_embeddings": c.tied_head,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": c.bos_id,
        "eos_token_id": list(c.eos_ids),
        "torch_dtype": "bfloat16",
    }
