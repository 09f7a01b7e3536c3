"""Models in training form: whole rows at once, differentiable, under the names Hugging Face stores them by.

Shapes: B rows, T tokens a row, D hidden size, E features that enter attention, H query heads, G KV heads, F head size. A
row holds several conversations; `mask_BTT` says what each token may attend to. The sums are those of the inference form
(`core/models/transformer.py`): norms, RoPE and the residual stream in fp32, matmuls in the weights' own format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from specmon.core.models.build import Builder, rope_table
from specmon.core.models.config import ModelConfig
from specmon.core.models.recipe import Recipe
from specmon.core.models.tensors import TensorFile
from specmon.kernels.rope.reference import apply_rope

Rotation = tuple[Tensor, Tensor]


class Heads(NamedTuple):
    """Queries [B, T, H, F] and keys [B, T, G, F] at their positions, values [B, T, G, F]."""

    q: Tensor
    k: Tensor
    v: Tensor


class Norm(nn.Module):
    """RMSNorm in fp32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


class Fuse(nn.Linear):
    """A head's `fc` over features of several layers, whose sizes lie a hundredfold apart, in training form.

    It is learnt on features scaled to about one, so that none is learnt faster than others. The scales are powers of two
    and go into the weight exactly wherever it is stored: what a file or checkpoint holds works on the features as they are.
    """

    scale: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)
        self.register_buffer("scale", torch.ones(in_features), persistent=False)

    def measure(self, features_NE: Tensor) -> None:
        """Choose the scales by how large these features are, each by its median: a first token's are outliers."""
        size_E = features_NE.abs().median(dim=0).values.clamp_min(2**-20)
        self.scale.copy_(torch.exp2(-torch.log2(size_E).round()))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.scale)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = destination[f"{prefix}weight"] * self.scale

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        name = f"{prefix}weight"
        unscaled = {name: state_dict[name].to(self.scale.device) / self.scale}
        super()._load_from_state_dict({**state_dict, **unscaled}, prefix, *others)


class Attention(nn.Module):
    """qkv projections, optional head norms, RoPE, attention, output projection."""

    def __init__(self, c: ModelConfig, in_features: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(in_features, c.q_heads_dim, bias=c.qkv_bias)
        self.k_proj = nn.Linear(in_features, c.kv_heads_dim, bias=c.qkv_bias)
        self.v_proj = nn.Linear(in_features, c.kv_heads_dim, bias=c.qkv_bias)
        self.o_proj = nn.Linear(c.q_heads_dim, c.hidden_size, bias=c.o_bias)
        if c.qk_norm:
            self.q_norm, self.k_norm = Norm(c.head_dim, c.norm_eps), Norm(c.head_dim, c.norm_eps)
        self.config = c

    def forward(self, x_BTE: Tensor, rotation: Rotation, mask_BTT: Tensor) -> Tensor:
        """Shapes: x_BTE [B, T, E] -> [B, T, D]."""
        return self.mix(attend(self.heads(x_BTE, rotation), mask_BTT))

    def heads(self, x_BTE: Tensor, rotation: Rotation) -> Heads:
        c, shape = self.config, x_BTE.shape[:2]
        q = apply(self.q_proj, x_BTE).view(*shape, c.n_heads, c.head_dim)
        k = apply(self.k_proj, x_BTE).view(*shape, c.n_kv_heads, c.head_dim)
        v = apply(self.v_proj, x_BTE).view(*shape, c.n_kv_heads, c.head_dim)
        if c.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        return Heads(apply_rope(q, *rotation).to(v.dtype), apply_rope(k, *rotation).to(v.dtype), v)

    def mix(self, mixed_BTHF: Tensor) -> Tensor:
        return apply(self.o_proj, mixed_BTHF.flatten(2))


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=c.mlp_bias)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=c.mlp_bias)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=c.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        return apply(self.down_proj, F.silu(apply(self.gate_proj, x)) * apply(self.up_proj, x))


class Layer(nn.Module):
    """A decoder layer on the residual stream x_BTD."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(c.hidden_size, c.norm_eps)
        self.self_attn = Attention(c, c.hidden_size)
        self.post_attention_layernorm = Norm(c.hidden_size, c.norm_eps)
        self.mlp = Mlp(c)

    def forward(self, x_BTD: Tensor, rotation: Rotation, mask_BTT: Tensor) -> Tensor:
        x_BTD = x_BTD + self.self_attn(self.input_layernorm(x_BTD), rotation, mask_BTT)
        mixed: Tensor = self.mlp(self.post_attention_layernorm(x_BTD))
        return x_BTD + mixed


class Layers(nn.ModuleList):
    """The decoder layers of a model, in order."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__(Layer(c) for _ in range(c.n_layers))

    def __iter__(self) -> Iterator[Layer]:
        for layer in super().__iter__():
            assert isinstance(layer, Layer)
            yield layer


class Body(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = Layers(c)
        self.norm = Norm(c.hidden_size, c.norm_eps)


class Decoder(nn.Module):
    """A target, which only teaches, or a draft model that learns."""

    def __init__(self, config: ModelConfig, *, tied: bool) -> None:
        super().__init__()
        self.model = Body(config)
        if not tied:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.config, self.tied = config, tied

    @property
    def head_VD(self) -> Tensor:
        head = self.model.embed_tokens if self.tied else self.lm_head
        assert isinstance(head, nn.Embedding | nn.Linear)
        weight: Tensor = head.weight
        return weight

    def forward(
        self, ids_BT: Tensor, mask_BTT: Tensor, taps: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor | None]:
        """Returns: the last hidden state after the final norm [B, T, D]; the inputs of `taps` [B, T, len(taps) · D]."""
        rotation = rotations(self.config, ids_BT.shape[1], ids_BT.device)
        x_BTD = self.model.embed_tokens(ids_BT).float()
        kept: dict[int, Tensor] = {}
        for i, layer in enumerate(self.model.layers):
            if i in taps:
                kept[i] = x_BTD
            x_BTD = layer(x_BTD, rotation, mask_BTT)
        kept[len(self.model.layers)] = x_BTD
        features = torch.cat([kept[i] for i in taps], dim=-1) if taps else None
        return self.model.norm(x_BTD), features


def attend(heads: Heads, mask_BTT: Tensor) -> Tensor:
    """Attention within `mask_BTT` [B, T, T] bool. Returns: [B, T, H, F]."""
    q, k, v = (part.transpose(1, 2) for part in heads)
    each = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(each, dim=1), v.repeat_interleave(each, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask_BTT[:, None]).transpose(1, 2)


def small_random(module: nn.Module) -> None:
    """Begin with matrices that leave sizes about as they are, drawn from torch's generator."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.copy_(part.in_features**-0.5 / 2 * torch.randn(part.weight.shape))


def apply(linear: nn.Linear, x: Tensor) -> Tensor:
    """`linear` in its own format."""
    y: Tensor = linear(x.to(linear.weight.dtype))
    return y


@cache
def rotations(config: ModelConfig, length: int, device: torch.device) -> Rotation:
    """cos and sin of positions 0 … length-1, each [length, 1, F]."""
    return rope_table(config, device, length).rows(slice(None))


def frozen_decoder(file: TensorFile, device: torch.device, dtype: torch.dtype) -> Decoder:
    """The model in `file` with matrices in `dtype` and fp32 norms, to learn from. Raises: SpecmonError."""
    config = file.config
    with torch.device("meta"):
        model = Decoder(config, tied=config.tied_head or "lm_head.weight" not in file.names())
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.to(dtype)
    model.to_empty(device=device).requires_grad_(False)
    fp32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
    builder = Builder(file, fp32, str(device))
    for name, weight in model.named_parameters():
        weight.copy_(builder.dense(name, tuple(weight.shape)))
    return model.eval()
