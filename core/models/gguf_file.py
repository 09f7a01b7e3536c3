"""A GGUF file: llama.cpp's names and row order turned into Hugging Face's."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from specmon.core.errors import SpecmonError
from specmon.core.models.config import ModelConfig, RopeConfig, config_from_gguf
from specmon.core.models.gguf_reader import read_gguf
from specmon.core.models.tensors import Stored, StoredKind

_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_HF_LAYER_NAME = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)$")
_KINDS: dict[str, StoredKind] = {"Q4_1": "q4_1", "Q8_0": "q8_0"}
_FLOATS = ("F32", "F16", "BF16")


class GgufFile:
    """Tensors of a GGUF file, memory-mapped.

    llama.cpp stores the q and k rows of Llama models interleaved for its RoPE; they are put back in rotate-half order.
    Raises: SpecmonError where the file is not GGUF, cut, or of an architecture that is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = str(path)
        try:
            self.fields, self._tensors = read_gguf(path)
        except (ValueError, OSError, MemoryError, RecursionError) as bad:
            raise SpecmonError(
                f"{path} is not a whole GGUF file ({bad}).", "Download or convert it again."
            ) from bad

    @cached_property
    def config(self) -> ModelConfig:
        config = replace(
            config_from_gguf(self.fields, self.where), tied_head="output.weight" not in self._tensors
        )
        factors = self._tensors.get("rope_freqs.weight")
        if factors is None:
            return config
        numbers = tuple((f"{i:05}", float(f)) for i, f in enumerate(factors.data))
        return replace(config, rope=RopeConfig(theta=config.rope.theta, kind="factors", parameters=numbers))

    def names(self) -> frozenset[str]:
        names = {hf for hf, own in _TOP.items() if own in self._tensors}
        for i in range(self.config.n_layers):
            for hf, own in _LAYER.items():
                names.update(
                    f"model.layers.{i}.{hf}.{kind}"
                    for kind in ("weight", "bias")
                    if f"blk.{i}.{own}.{kind}" in self._tensors
                )
        return frozenset(names)

    def read(self, name: str) -> Stored:
        own = _own_name(name)
        tensor = self._tensors.get(own)
        if tensor is None:
            raise SpecmonError(f"{self.where} has no tensor {own}.", "It is not a complete model.")
        stored_as = tensor.type.name
        # A copy: the map is read-only, and torch may not hold read-only memory.
        data = torch.from_numpy(tensor.data.copy())
        if stored_as == "BF16" and data.dtype == torch.uint8:
            data = data.view(torch.bfloat16)
        data = self._rotate_half_rows(name, data)
        if stored_as in _FLOATS:
            return Stored(name=name, kind="dense", data=data)
        return Stored(name=name, kind=_KINDS.get(stored_as, "gguf"), data=data, gguf_type=int(tensor.type))

    def _rotate_half_rows(self, name: str, data: Tensor) -> Tensor:
        """Undo llama.cpp's row order of q and k: [head, pair, 2] back to [head, 2, pair]."""
        if self.config.family != "llama" or not re.search(r"\.(q|k)_proj\.", name):
            return data
        heads = self.config.n_heads if ".q_proj." in name else self.config.n_kv_heads
        return data.view(heads, self.config.head_dim // 2, 2, -1).transpose(1, 2).reshape(data.shape)


def _own_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    match = _HF_LAYER_NAME.match(name)
    if match and match[2] in _LAYER:
        return f"blk.{match[1]}.{_LAYER[match[2]]}.{match[3]}"
    return name
