"""The forward pass of Llama, Qwen2/2.5 and Qwen3 on a static KV cache.

Shapes: R rows, D hidden size, H query heads, G KV heads, F features (taps). One residual stream x_RD flows through the
layers; each op is `kernels`' own, so a recipe and a backend decide the bits, not this file.
Source: Touvron et al. 2023 (Llama); Qwen2 and Qwen3 technical reports (biases on q, k, v; norms on q and k heads).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specmon.core.models.config import ModelConfig
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Placement, append
from specmon.kernels.linear import Linear, bytes_by_device
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.reference import RopeTable, apply_rope
from specmon.kernels.swiglu.reference import swiglu


@dataclass(frozen=True, kw_only=True)
class Attention:
    """qkv projection, optional head norms, RoPE, KV append, attention, output projection."""

    qkv: Linear
    o: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None

    @property
    def head_norms(self) -> tuple[Tensor, Tensor] | None:
        """Of q and k heads, where the model has them."""
        return None if self.q_norm is None or self.k_norm is None else (self.q_norm, self.k_norm)

    def __call__(
        self,
        h_RE: Tensor,
        config: ModelConfig,
        rotation: tuple[Tensor, Tensor],
        kv: KvCache,
        layer: int,
        placement: Placement,
    ) -> Tensor:
        """Shapes: h_RE [R, E] (E = D, or 2D in an EAGLE-3 head) -> [R, D]."""
        q_RHD, k_RGD, v_RGD = self._heads(h_RE, config, rotation)
        mixed = placement.attend(kv, layer, q_RHD, k_RGD, v_RGD)
        return self.o(mixed.reshape(len(h_RE), config.q_heads_dim))

    def keep(
        self,
        h_RE: Tensor,
        config: ModelConfig,
        rotation: tuple[Tensor, Tensor],
        kv: KvCache,
        layer: int,
        start: int,
        n_rows: int,
    ) -> None:
        """Store keys and values of the first `n_rows` rows in the slots from `start` on, and nothing else."""
        _, k_RGD, v_RGD = self._heads(h_RE, config, rotation)
        append(kv, layer, start, k_RGD[:n_rows], v_RGD[:n_rows])

    def _heads(
        self, h_RE: Tensor, config: ModelConfig, rotation: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [R, H, D] and keys [R, G, D] at their positions, values [R, G, D]."""
        n_rows, n_q, n_kv = h_RE.shape[0], config.n_heads, config.n_kv_heads
        heads = self.qkv(h_RE).view(n_rows, n_q + 2 * n_kv, config.head_dim)
        q_RHD, k_RGD, v_RGD = torch.split(heads, [n_q, n_kv, n_kv], dim=1)
        if self.head_norms is not None:
            q_norm, k_norm = self.head_norms
            q_RHD = rmsnorm(q_RHD, q_norm, config.norm_eps)
            k_RGD = rmsnorm(k_RGD, k_norm, config.norm_eps)
            q_RHD, k_RGD = apply_rope(q_RHD, *rotation), apply_rope(k_RGD, *rotation)
        else:
            rotated = apply_rope(heads[:, : n_q + n_kv], *rotation)
            q_RHD, k_RGD = rotated[:, :n_q], rotated[:, n_q:]
        return q_RHD, k_RGD, v_RGD


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """SwiGLU: down(silu(gate) · up), gate and up in one matrix."""

    gate_up: Linear
    down: Linear

    def __call__(self, h_RD: Tensor) -> Tensor:
        return self.down(swiglu(self.gate_up(h_RD)))


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A decoder layer; adds its two branches to the residual stream in place."""

    input_norm: Tensor
    attention: Attention
    post_norm: Tensor
    mlp: Mlp


class Transformer:
    """A target or an independent draft model.

    Every `Linear` rounds its input to its own format; norms, RoPE and the residual stream are fp32.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        embedding_VD: Tensor,
        layers: Sequence[Layer],
        norm: Tensor,
        head: Linear,
        rope: RopeTable,
        n_devices: int = 1,
    ) -> None:
        self.config = config
        self.n_devices = n_devices
        self.embedding_VD = embedding_VD
        self.layers = tuple(layers)
        self.norm = norm
        self.head = head
        self.rope = rope
        self.device = embedding_VD.device

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of weights one forward pass reads (the embedding is a look-up of a few rows and is left out)."""
        return sum(self.weight_bytes_by_device)

    @cached_property
    def weight_bytes_by_device(self) -> tuple[int, ...]:
        """`weight_bytes` on each of the devices that share the matmuls."""
        first, *others = bytes_by_device(self.linears(), self.n_devices)
        return first + self.norm.nbytes, *others

    def linears(self) -> list[Linear]:
        per_layer = [(y.attention.qkv, y.attention.o, y.mlp.gate_up, y.mlp.down) for y in self.layers]
        return [linear for four in per_layer for linear in four] + [self.head]

    def hidden(
        self, ids_R: Tensor, kv: KvCache, placement: Placement, taps: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layers and append to `kv` (the cursor is the caller's).

        Args:
            ids_R: token ids [R]. taps: layer indices whose input is kept (EAGLE-3 features), in this order.
        Returns: the last hidden state after the final norm [R, D], and the features [R, len(taps) · D] or None.
        """
        x_RD = self.embedding_VD[ids_R].float()
        rotation = self.rope.rows(placement.positions)
        kept: dict[int, Tensor] = {}
        eps = self.config.norm_eps
        for i, layer in enumerate(self.layers):
            if i in taps:
                kept[i] = x_RD.clone()
            h_RD = rmsnorm(x_RD, layer.input_norm, eps)
            x_RD += layer.attention(h_RD, self.config, rotation, kv, i, placement)
            x_RD += layer.mlp(rmsnorm(x_RD, layer.post_norm, eps))
        if len(self.layers) in taps:
            kept[len(self.layers)] = x_RD.clone()
        features = torch.cat([kept[i] for i in taps], dim=-1) if taps else None
        return rmsnorm(x_RD, self.norm, eps), features

    def logits(self, hidden_RD: Tensor) -> Tensor:
        """Vocabulary logits [R, V]."""
        return self.head(hidden_RD)
