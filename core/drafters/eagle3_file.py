"""A published EAGLE-3 head's file, and the head read from it. Where its card says other than its tensors, these are right.

Layouts: SafeAILab's and SGLang's (SpecForge) name the layer `midlayer`, the latter also under `model.`; vLLM's and
speculators' name it `layers.0`, nest the layer's configuration in the card and may bring an embedding of their own. Layers
whose features a head takes are named by their input; a card that names none means {2, L//2, L-3}.
Source: tensor names of SafeAILab/EAGLE, vllm-project/speculators and sgl-project/sglang (llama_eagle3.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from specmon.core.drafters.eagle3 import Eagle3Head
from specmon.core.errors import SpecmonError
from specmon.core.models.build import Builder, rope_table
from specmon.core.models.config import ModelConfig
from specmon.core.models.json_fields import table, whole_numbers
from specmon.core.models.recipe import Recipe
from specmon.core.models.tensors import Stored, TensorFile

_LAYER = "midlayer"
_OLD_NORMS = {"aux_norm_low": "fc_norm.0", "aux_norm_mid": "fc_norm.1", "aux_norm_high": "fc_norm.2"}


class HeadFile(TensorFile, Protocol):
    """A head's tensors and its card as published."""

    @property
    def raw_config(self) -> dict[str, Any]: ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor that is there, without reading it."""
        ...


class PublishedHead:
    """A head's tensors under SafeAILab's names, whatever its layout, and the configuration that they have.

    Raises: SpecmonError where it has more than one layer, asks for what is not supported, or lacks a tensor.
    """

    def __init__(self, file: HeadFile) -> None:
        self._file = file
        self.where = file.where
        self.raw_config = file.raw_config
        self._stored_as = {_canonical(name): name for name in file.names()}
        if any(name.startswith("layers.") for name in self._stored_as):
            raise SpecmonError(f"{self.where} is a head of several layers; only those of one are supported.")
        if self._card("norm_output"):
            raise SpecmonError(
                f"{self.where} hands normed features on from step to step (norm_output), which is not supported."
            )

    def names(self) -> frozenset[str]:
        return frozenset(self._stored_as)

    def read(self, name: str) -> Stored:
        return self._file.read(self._stored_as.get(name, name))

    def _shape(self, name: str, n_dims: int = 2) -> tuple[int, ...]:
        if name not in self._stored_as:
            raise SpecmonError(f"{self.where} has no tensor {name}.", "It is not a complete model.")
        shape = self._file.shape(self._stored_as[name])
        if len(shape) != n_dims or 0 in shape:
            raise SpecmonError(f"{self.where} stores {name} as {list(shape)}, which is no shape of a head's.")
        return shape

    @cached_property
    def config(self) -> ModelConfig:
        """The layer's shape as its tensors have it; head size, RoPE and the like are the card's."""
        card, rows = (
            self._file.config,
            {p: self._shape(f"{_LAYER}.self_attn.{p}_proj.weight")[0] for p in "qk"},
        )
        head_dim = card.head_dim if rows["q"] % card.head_dim == 0 else rows["q"] // card.n_heads
        if rows["q"] % head_dim or rows["k"] % head_dim:
            raise SpecmonError(
                f"{self.where} stores queries of {rows['q']} and keys of {rows['k']} numbers, which are no heads of "
                f"{head_dim}."
            )
        return replace(
            card,
            vocab_size=self._shape("t2d", 1)[0] if "t2d" in self.names() else card.vocab_size,
            hidden_size=self._shape("norm.weight", 1)[0],
            intermediate_size=self._shape(f"{_LAYER}.mlp.gate_proj.weight")[0],
            n_layers=1,
            n_heads=rows["q"] // head_dim,
            n_kv_heads=rows["k"] // head_dim,
            head_dim=head_dim,
            tied_head=False,
            qkv_bias=f"{_LAYER}.self_attn.q_proj.bias" in self.names(),
            o_bias=f"{_LAYER}.self_attn.o_proj.bias" in self.names(),
            mlp_bias=f"{_LAYER}.mlp.down_proj.bias" in self.names(),
            qk_norm=f"{_LAYER}.self_attn.q_norm.weight" in self.names(),
        )

    @property
    def normed_residual(self) -> bool:
        """Whether the residual stream begins after the features' norm. No tensor tells: the card's word."""
        return bool(self._card("norm_before_residual"))

    @property
    def named_layers(self) -> tuple[int, ...] | None:
        """The layers whose features the card asks for, None where it names none."""
        key = "eagle_aux_hidden_state_layer_ids"
        return whole_numbers({key: self._card(key)}, key, self.where) or None

    def tap_layers(self, target: ModelConfig) -> tuple[int, ...]:
        """Target layers whose input feeds the head: the card's, else the usual ones.

        Raises: SpecmonError for a layer that the target does not have, or where `fc` reads another number of features.
        """
        taps, n_layers = self.named_layers or usual_layers(target.n_layers), target.n_layers
        width = self._shape("fc.weight")[1]
        if width % target.hidden_size:
            raise SpecmonError(
                f"{self.where} has an fc that reads {width} numbers, which are no features of a target of hidden size "
                f"{target.hidden_size}.",
                "Choose a head trained for this target.",
            )
        if width != len(taps) * target.hidden_size:
            raise SpecmonError(
                f"{self.where} asks for features of layers {list(taps)}; its fc reads "
                f"{width // target.hidden_size} layers.",
                "Name as many in its config.json (eagle_aux_hidden_state_layer_ids).",
            )
        if not all(0 <= i <= n_layers for i in taps):
            raise SpecmonError(
                f"The EAGLE-3 head wants features of layers {list(taps)}; the target has {n_layers}."
            )
        return taps

    def to_target(self, vocab_size: int) -> Tensor:
        """Target ids [V'] of the head's indices: `token_readings`' first.

        Raises: SpecmonError where there is none.
        """
        readings = self.token_readings(vocab_size)
        if readings:
            return readings[0]
        if "d2t" not in self.names() and "t2d" not in self.names():
            raise SpecmonError(f"{self.where} has a vocabulary of its own but no d2t to map it.")
        n_own, n_mapped = self._shape("lm_head.weight")[0], self._n_mapped()
        if n_own != n_mapped:
            raise SpecmonError(f"{self.where} has {n_own} tokens of its own, but maps {n_mapped} (d2t, t2d).")
        raise SpecmonError(
            f"{self.where} maps its vocabulary (d2t) outside the target's {vocab_size} tokens, or twice to one."
        )

    def _n_mapped(self) -> int:
        if "d2t" in self.names():
            return self.read("d2t").data.numel()
        return int(self.read("t2d").data.count_nonzero())

    def token_readings(self, vocab_size: int) -> list[Tensor]:
        """Ways to read the map to target ids, the likeliest first.

        `d2t` is what to add to an index, or was taken for the id itself; `t2d`, which marks the target tokens that the
        head knows, tells which. Without either the head has the target's own vocabulary.
        """
        names, n_own = self.names(), self._shape("lm_head.weight")[0]
        marked = self.read("t2d").data.nonzero().flatten() if "t2d" in names else None
        if "d2t" not in names:
            ids = torch.arange(n_own) if marked is None and n_own == vocab_size else marked
            return [ids] if ids is not None and len(ids) == n_own else []
        stored = self.read("d2t").data.long().flatten()
        if len(stored) != n_own:
            return []
        possible = [ids for ids in (torch.arange(n_own) + stored, stored) if maps_into(ids, vocab_size)]
        if marked is not None:
            possible = [ids for ids in possible if torch.equal(ids.sort().values, marked)]
        return possible

    def misfit(self, target: ModelConfig) -> SpecmonError:
        own = self.config
        return SpecmonError(
            f"{self.where} is for a target of hidden size {own.hidden_size} and {own.vocab_size} tokens, "
            f"this one has {target.hidden_size} and {target.vocab_size}.",
            "Choose a head trained for this target.",
        )

    def _card(self, field: str) -> Any:
        """A field of the card or of its `eagle_config`."""
        own = table(self.raw_config, "eagle_config", self.where)
        return own.get(field, self.raw_config.get(field))


def is_eagle3(raw_config: dict[str, Any]) -> bool:
    return any("eagle3" in str(name).lower() for name in raw_config.get("architectures") or ())


def usual_layers(n_layers: int) -> tuple[int, ...]:
    return 2, n_layers // 2, n_layers - 3


def load_eagle3(
    file: HeadFile,
    target: ModelConfig,
    embedding_VD: Tensor,
    recipe: Recipe,
    device: str,
    *,
    max_positions: int,
) -> Eagle3Head:
    """Read a published EAGLE-3 head for `target`. `embedding_VD` is the target's, used where the head brings none.

    Raises: SpecmonError where the head is for another hidden size or vocabulary, lacks a tensor or holds one that is not
    finite.
    """
    head = PublishedHead(file)
    config, hidden = head.config, head.config.hidden_size
    if (hidden, config.vocab_size) != (target.hidden_size, target.vocab_size):
        raise head.misfit(target)
    taps = head.tap_layers(target)
    to_target = head.to_target(target.vocab_size)
    builder = Builder(head, recipe, device)
    if "embed_tokens.weight" in head.names():
        embedding_VD = builder.dense("embed_tokens.weight", (config.vocab_size, hidden))
    return Eagle3Head(
        config=config,
        tap_layers=taps,
        embedding_VD=embedding_VD,
        fc=builder.linear("fc.weight", (hidden, len(taps) * hidden)),
        input_norm=builder.norm(f"{_LAYER}.input_layernorm.weight", hidden),
        hidden_norm=builder.norm(f"{_LAYER}.hidden_norm.weight", hidden),
        attention=builder.attention(_LAYER, 2 * hidden),
        post_norm=builder.norm(f"{_LAYER}.post_attention_layernorm.weight", hidden),
        mlp=builder.mlp(_LAYER),
        norm=builder.norm("norm.weight", hidden),
        head=builder.linear("lm_head.weight", (len(to_target), hidden)),
        to_target=to_target.to(embedding_VD.device),
        rope=rope_table(config, builder.device, max_positions),
        feature_norms=_feature_norms(head, builder, len(taps), hidden),
        normed_residual=head.normed_residual,
    )


def _feature_norms(head: PublishedHead, builder: Builder, n_taps: int, hidden: int) -> tuple[Tensor, ...]:
    """The norms that features go through before `fc`: one over all, one a layer, or none."""
    if "input_norm.weight" in head.names():
        return (builder.norm("input_norm.weight", n_taps * hidden),)
    if "fc_norm.0.weight" in head.names():
        return tuple(builder.norm(f"fc_norm.{i}.weight", hidden) for i in range(n_taps))
    return ()


def _canonical(name: str) -> str:
    """SafeAILab's name of a tensor."""
    name = name.removeprefix("model.")
    name = name.replace("layers.0.", f"{_LAYER}.", 1) if name.startswith("layers.0.") else name
    old, dot, rest = name.partition(".")
    return f"{_OLD_NORMS[old]}.{rest}" if dot and old in _OLD_NORMS else name


def maps_into(ids: Tensor, vocab_size: int) -> bool:
    """Whether each is another token of the target."""
    return int(ids.min()) >= 0 and int(ids.max()) < vocab_size and len(set(ids.tolist())) == len(ids)
