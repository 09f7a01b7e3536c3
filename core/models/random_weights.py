"""Models of a published shape with weights made on the spot: speed can be measured without a download.

Seeded by tensor name, so that every process makes the same model; never written to disk. Their text means nothing, but it
varies and hangs on all that came before, so that a wrong key or value shows in it.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from typing import Any

import torch

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.config import ModelConfig, RopeConfig
from specmon.core.models.tensors import Stored

PREFIX = "random:"


def _qwen2(
    hidden: int, inner: int, layers: int, heads: int, kv_heads: int, head_dim: int, tied: bool
) -> ModelConfig:
    return ModelConfig(
        family="qwen2",
        vocab_size=152_064,
        hidden_size=hidden,
        intermediate_size=inner,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=1e-6,
        rope=RopeConfig(theta=1_000_000.0),
        context_length=32_768,
        tied_head=tied,
        qkv_bias=True,
    )


SHAPES: dict[str, ModelConfig] = {
    "qwen2.5-0.5b": replace(_qwen2(896, 4864, 24, 14, 2, 64, tied=True), vocab_size=151_936),
    "qwen2.5-7b": _qwen2(3584, 18_944, 28, 28, 4, 128, tied=False),
    "qwen2.5-32b": _qwen2(5120, 27_648, 64, 40, 8, 128, tied=False),
    "qwen3-0.6b": replace(
        _qwen2(1024, 3072, 28, 16, 8, 128, tied=True),
        family="qwen3",
        vocab_size=151_936,
        qkv_bias=False,
        qk_norm=True,
    ),
    "smollm2-135m": replace(
        _qwen2(576, 1536, 30, 9, 3, 64, tied=True), family="llama", vocab_size=49_152, qkv_bias=False
    ),
}


#: Vocabularies of EAGLE-3 heads for targets of SHAPES, sized like published heads.
HEADS: dict[str, int] = {"qwen2.5-7b": 32_000, "smollm2-135m": 8192}
_HEAD = "-eagle3"
_TAPS = 3
_PAIRED = frozenset(f"self_attn.{p}_proj.weight" for p in "qkv")  # they read embedding and feature

_SHARPNESS = math.sqrt(2)  # of queries and of keys: scores get its square, 2, as their standard deviation
_BIAS = 0.1


class RandomTensors:
    """A `TensorFile` whose tensors are drawn when read, on the current CUDA device where there is one."""

    def __init__(self, where: str, config: ModelConfig, shapes: dict[str, tuple[int, ...]]) -> None:
        self.where, self.config, self._shapes = where, config, shapes

    def names(self) -> frozenset[str]:
        return frozenset(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    def read(self, name: str) -> Stored:
        if name not in self._shapes:
            raise SpecmonError(f"{self.where} has no tensor {name}.")
        shape = self._shapes[name]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        generator = torch.Generator(device).manual_seed(zlib.crc32(name.encode()))
        data = torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16)
        if name.endswith("norm.weight"):
            data = data.sign() + 0.1 * data
        return Stored(name=name, kind="dense", data=data.mul_(self._scale(name)))

    def _scale(self, name: str) -> float:
        """What a tensor's draws are multiplied by.

        Embeddings and what each layer adds have entries near 1 at any width: the residual grows like √layers, and neither
        biases nor depth drown a token. Scores have a standard deviation of 2 whatever the sizes, so that a head reads a few
        positions, which hang on every token; in sharper ones rounding would grow from layer to layer. Norms have signs:
        without them a tied head answers with the token it is given.
        """
        scale = _SHARPNESS if ".q_" in name or ".k_" in name else 1.0
        if name.endswith(".bias"):
            return scale * _BIAS
        if name == "model.norm.weight" and self.config.tied_head:  # the head's entries are near 1 too
            return 1 / math.sqrt(self.config.hidden_size)
        if name.endswith("norm.weight") or name == "model.embed_tokens.weight":
            return scale
        return scale / math.sqrt(self._shapes[name][1])


class RandomFile(RandomTensors):
    """A model of a shape of SHAPES. Raises: UsageError for another."""

    def __init__(self, name: str) -> None:
        shape = name.removeprefix(PREFIX)
        if shape not in SHAPES:
            raise UsageError(f"There is no shape {shape!r}.", f"Choose {', '.join(SHAPES)}.")
        super().__init__(name, SHAPES[shape], tensor_shapes(SHAPES[shape]))


class RandomHead(RandomTensors):
    """An EAGLE-3 head for a target of a shape of HEADS, over every other token from the first on.

    Raises: UsageError for another.
    """

    raw_config: dict[str, Any] = {"architectures": ["LlamaForCausalLMEagle3"]}  # noqa: RUF012

    def __init__(self, shape: str) -> None:
        name = f"{PREFIX}{shape}{_HEAD}"
        if shape not in HEADS:
            raise UsageError(f"There is no head {name!r}.", f"Choose one for {', '.join(HEADS)}.")
        config = head_config(SHAPES[shape])
        super().__init__(name, config, head_shapes(config, HEADS[shape]))

    def read(self, name: str) -> Stored:
        if name != "d2t":
            return super().read(name)
        return Stored(name=name, kind="dense", data=torch.arange(*self._shapes[name]))


def random_tensors(name: str) -> RandomFile | RandomHead:
    """Of "random:SHAPE", or "random:SHAPE-eagle3" for a head of a target of that shape. Raises: UsageError."""
    if name.endswith(_HEAD):
        return RandomHead(name.removeprefix(PREFIX).removesuffix(_HEAD))
    return RandomFile(name)


def head_config(target: ModelConfig) -> ModelConfig:
    """Of an EAGLE-3 head: one Llama layer of the target's sizes, without biases and head norms."""
    return replace(target, family="llama", n_layers=1, tied_head=False, qkv_bias=False, qk_norm=False)


def head_shapes(c: ModelConfig, draft_vocab: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of an EAGLE-3 head by its published name."""
    at = "model.layers.0."
    layer = {k.removeprefix(at): v for k, v in tensor_shapes(c).items() if k.startswith(at)}
    shapes = {f"midlayer.{k}": (v[0], 2 * v[1]) if k in _PAIRED else v for k, v in layer.items()}
    return shapes | {
        "midlayer.hidden_norm.weight": (c.hidden_size,),
        "fc.weight": (c.hidden_size, _TAPS * c.hidden_size),
        "norm.weight": (c.hidden_size,),
        "lm_head.weight": (draft_vocab, c.hidden_size),
        "d2t": (draft_vocab,),
    }


def tensor_shapes(c: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of a Llama, Qwen2 or Qwen3 model by its Hugging Face name."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (c.vocab_size, c.hidden_size),
        "model.norm.weight": (c.hidden_size,),
    }
    if not c.tied_head:
        shapes["lm_head.weight"] = (c.vocab_size, c.hidden_size)
    rows = {"q": c.q_heads_dim, "k": c.kv_heads_dim, "v": c.kv_heads_dim}
    for i in range(c.n_layers):
        at = f"model.layers.{i}"
        shapes[f"{at}.input_layernorm.weight"] = (c.hidden_size,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (c.hidden_size,)
        for p, n in rows.items():
            shapes[f"{at}.self_attn.{p}_proj.weight"] = (n, c.hidden_size)
            if c.qkv_bias:
                shapes[f"{at}.self_attn.{p}_proj.bias"] = (n,)
        for p in ("q", "k") if c.qk_norm else ():
            shapes[f"{at}.self_attn.{p}_norm.weight"] = (c.head_dim,)
        shapes[f"{at}.self_attn.o_proj.weight"] = (c.hidden_size, c.q_heads_dim)
        for p in ("gate", "up"):
            shapes[f"{at}.mlp.{p}_proj.weight"] = (c.intermediate_size, c.hidden_size)
        shapes[f"{at}.mlp.down_proj.weight"] = (c.hidden_size, c.intermediate_size)
    return shapes
