"""Weights from a file into ops: one `Linear` a projection, in the form the recipe asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specmon.core.errors import SpecmonError
from specmon.core.models.config import ModelConfig
from specmon.core.models.recipe import Recipe
from specmon.core.models.tensors import Stored, TensorFile
from specmon.core.models.transformer import Attention, Layer, Mlp, Transformer
from specmon.kernels.dequantise.reference import dequantise_gguf, q4_1_scales, quantise_rows_int8
from specmon.kernels.linear import (
    DenseLinear,
    Fp8Linear,
    Int4Linear,
    Int8Head,
    Int8Linear,
    Linear,
    ShardedLinear,
    into_huge_pages,
    row_shares,
)
from specmon.kernels.quantise.reference import quantise_channels
from specmon.kernels.rope.frequencies import inverse_frequencies
from specmon.kernels.rope.reference import RopeTable

Progress = Callable[[str, float | None], None]


def build_transformer(
    file: TensorFile,
    recipe: Recipe,
    device: str,
    *,
    max_positions: int,
    progress: Progress,
    more_devices: Sequence[str] = (),
) -> Transformer:
    """Read every weight of `file` and pack it for `recipe` on `device`.

    Args:
        max_positions: length of the rotary table.
        more_devices: devices that share the matmuls; KV cache, attention and norms stay on the first.
    Raises: SpecmonError for a tensor that is missing, of another shape than the configuration says, or not finite.
    """
    config = file.config
    builder = Builder(file, recipe, device, more_devices)
    layers = []
    for i in range(config.n_layers):
        progress(f"loading {file.where}", i / config.n_layers)
        layers.append(builder.layer(i))
    tied = config.tied_head or "lm_head.weight" not in file.names()
    model = Transformer(
        config,
        embedding_VD=builder.dense("model.embed_tokens.weight", (config.vocab_size, config.hidden_size)),
        layers=layers,
        norm=builder.norm("model.norm.weight", config.hidden_size),
        head=builder.head(
            "model.embed_tokens.weight" if tied else "lm_head.weight", (config.vocab_size, config.hidden_size)
        ),
        rope=rope_table(config, builder.device, max_positions),
        n_devices=len(builder.devices),
    )
    into_huge_pages(model.linears())
    return model


def rope_table(config: ModelConfig, device: torch.device, max_positions: int) -> RopeTable:
    """Rotary cos and sin for positions 0 … max_positions-1."""
    rope, parameters = config.rope, dict(config.rope.parameters)
    if rope.kind == "factors":  # a GGUF that stores its llama3 scaling as one divisor a frequency
        inverse, scale = inverse_frequencies(config.head_dim, rope.theta)
        inverse = inverse / torch.tensor([parameters[key] for key in sorted(parameters)])
    else:
        inverse, scale = inverse_frequencies(
            config.head_dim, rope.theta, {"rope_type": rope.kind, **parameters}, config.context_length
        )
    return RopeTable(inverse.to(device), max_positions, scale)


class Builder:
    """Reads tensors of one file and turns them into what the recipe computes with."""

    def __init__(
        self, file: TensorFile, recipe: Recipe, device: str, more_devices: Sequence[str] = ()
    ) -> None:
        self.file = file
        self.recipe = recipe
        names = (device, *more_devices)
        self.devices = tuple(torch.device("cpu" if name.startswith("cpu") else name) for name in names)
        self.device = self.devices[0]
        self.config = file.config

    def layer(self, i: int) -> Layer:
        c, at = self.config, f"model.layers.{i}"
        return Layer(
            input_norm=self.norm(f"{at}.input_layernorm.weight", c.hidden_size),
            attention=self.attention(at, c.hidden_size),
            post_norm=self.norm(f"{at}.post_attention_layernorm.weight", c.hidden_size),
            mlp=self.mlp(at),
        )

    def attention(self, at: str, in_features: int) -> Attention:
        c, own = self.config, f"{at}.self_attn"
        names = [f"{own}.{p}_proj" for p in "qkv"]
        rows = (c.q_heads_dim, c.kv_heads_dim, c.kv_heads_dim)
        return Attention(
            qkv=self._stack(names, rows, in_features, bias=c.qkv_bias),
            o=self._stack([f"{own}.o_proj"], (c.hidden_size,), c.q_heads_dim, bias=c.o_bias),
            q_norm=self.norm(f"{own}.q_norm.weight", c.head_dim) if c.qk_norm else None,
            k_norm=self.norm(f"{own}.k_norm.weight", c.head_dim) if c.qk_norm else None,
        )

    def mlp(self, at: str) -> Mlp:
        c, own = self.config, f"{at}.mlp"
        inner = c.intermediate_size
        return Mlp(
            gate_up=self._stack(
                [f"{own}.gate_proj", f"{own}.up_proj"], (inner, inner), c.hidden_size, bias=c.mlp_bias
            ),
            down=self._stack([f"{own}.down_proj"], (c.hidden_size,), inner, bias=c.mlp_bias),
        )

    def _stack(self, names: Sequence[str], rows: Sequence[int], in_features: int, *, bias: bool) -> Linear:
        stored = [self._read(f"{n}.weight", (r, in_features)) for n, r in zip(names, rows, strict=True)]
        vector = None
        if bias:
            parts = [self._float(self._read(f"{n}.bias", (r,))) for n, r in zip(names, rows, strict=True)]
            vector = torch.cat(parts).to(self.device, self.recipe.activation)
        return self._pack(stored, vector, fp8=self.recipe.fp8)

    def linear(self, name: str, shape: tuple[int, int]) -> Linear:
        return self._pack([self._read(name, shape)], None, fp8=self.recipe.fp8)

    def head(self, name: str, shape: tuple[int, int]) -> Linear:
        """The vocabulary head; a Q8_0 one becomes int8 per channel, with exact logits for the best tokens."""
        stored = self._read(name, shape)
        if self._keeps_quantised and stored.kind == "q8_0":
            return Int8Head(*quantise_rows_int8(self._float(stored)))
        return self._pack([stored], None, fp8=self.recipe.fp8_head)

    @property
    def _keeps_quantised(self) -> bool:
        return self.recipe.quantised and self.device.type == "cpu"

    def _pack(self, stored: Sequence[Stored], bias: Tensor | None, *, fp8: bool) -> Linear:
        kinds = {s.kind for s in stored}
        if self._keeps_quantised and kinds == {"q4_1"}:
            return Int4Linear.from_q4_1(*(s.data for s in stored), bias=bias)
        if self._keeps_quantised and kinds == {"q8_0"}:
            return Int8Linear(*quantise_rows_int8(torch.cat([self._float(s) for s in stored])), bias)
        if self._keeps_quantised and kinds == {"int8"}:
            scales = [s.scale for s in stored if s.scale is not None]
            return Int8Linear(torch.cat([s.data for s in stored]), torch.cat(scales).flatten(), bias)
        dtype = torch.float32 if fp8 else self.recipe.activation
        weight = torch.cat([self._float(s).to(self.device, dtype) for s in stored])
        if len(self.devices) == 1:
            return _float_linear(weight, bias, fp8=fp8)
        parts = [
            _float_linear(weight[rows].to(home), None if bias is None else bias[rows].to(home), fp8=fp8)
            for rows, home in zip(row_shares(len(weight), len(self.devices)), self.devices, strict=True)
        ]
        return ShardedLinear(parts, self.devices)

    def dense(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A tensor as floats in the recipe's activation format on the device."""
        return self._float(self._read(name, shape)).to(self.device, self.recipe.activation)

    def norm(self, name: str, size: int) -> Tensor:
        return self._float(self._read(name, (size,))).to(self.device)

    def _read(self, name: str, shape: tuple[int, ...]) -> Stored:
        stored = self.file.read(name)
        found = tuple(stored.data.shape)
        in_blocks = stored.kind in ("q4_1", "q8_0", "gguf")
        if found != shape and not (in_blocks and found[0] == shape[0]):
            raise SpecmonError(
                f"{self.file.where} stores {name} as {list(found)} where its configuration says {list(shape)}."
            )
        if stored.scale is not None and stored.scale.numel() != found[0]:
            raise SpecmonError(
                f"{self.file.where} stores {name} as {found[0]} rows with {stored.scale.numel()} scales."
            )
        if stored.scale is not None:
            self._check_finite(name, stored.scale)
        if stored.kind == "q4_1":
            self._check_finite(name, *q4_1_scales(stored.data))
        return stored

    def _check_finite(self, name: str, *parts: Tensor) -> None:
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise SpecmonError(f"{self.file.where} holds values in {name} that are not finite.")

    def _float(self, stored: Stored) -> Tensor:
        if stored.kind == "dense":
            data = stored.data.float()
        elif stored.kind == "int8":
            assert stored.scale is not None
            data = stored.data.float() * stored.scale.float().view(-1, 1)
        else:
            data = self._dequantise(stored)
        self._check_finite(stored.name, data)
        return data

    def _dequantise(self, stored: Stored) -> Tensor:
        try:
            return dequantise_gguf(stored.gguf_type, stored.data)
        except ValueError as bad:
            raise SpecmonError(f"{self.file.where} cannot be used: {bad}.") from bad


def _float_linear(weight_NK: Tensor, bias_N: Tensor | None, *, fp8: bool) -> Linear:
    return Fp8Linear(*quantise_channels(weight_NK), bias_N) if fp8 else DenseLinear(weight_NK, bias_N)
