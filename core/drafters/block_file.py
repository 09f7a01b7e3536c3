"""A block drafter read from a folder as `specmon train block` writes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from specmon.core.drafters.block import BlockModel
from specmon.core.drafters.eagle3_file import HeadFile, maps_into
from specmon.core.errors import SpecmonError
from specmon.core.models.build import Builder, rope_table
from specmon.core.models.config import ModelConfig
from specmon.core.models.recipe import Recipe
from specmon.core.models.transformer import Transformer


def is_block_drafter(raw_config: dict[str, Any]) -> bool:
    return "LlamaBlockDrafter" in (raw_config.get("architectures") or ())


def load_block_drafter(
    file: HeadFile,
    target: ModelConfig,
    embedding_VD: Tensor,
    recipe: Recipe,
    device: str,
    *,
    max_positions: int,
) -> BlockModel:
    """Read a block drafter for `target`, whose embedding it uses. `max_positions`: of the text; a block goes beyond it.

    Raises: SpecmonError where it is for another hidden size, asks for layers that the target has not, lacks a tensor or
    holds one of another shape or with values that are not finite.
    """
    config = replace(file.config, tied_head=False)
    hidden = config.hidden_size
    if (hidden, config.vocab_size) != (target.hidden_size, target.vocab_size):
        raise SpecmonError(
            f"{file.where} is for a target of hidden size {hidden} and {config.vocab_size} tokens, "
            f"this one has {target.hidden_size} and {target.vocab_size}.",
            "Choose a drafter trained for this target.",
        )
    taps, to_target = _tap_layers(file, target), block_to_target(file, target.vocab_size)
    masks = file.read("model.masks.weight").data
    block_len = masks.numel() // hidden
    if not masks.numel():
        raise SpecmonError(f"{file.where} has no masks (model.masks.weight), so it drafts nothing.")
    builder = Builder(file, recipe, device)
    masks_KD = builder.dense("model.masks.weight", (block_len, hidden))
    return BlockModel(
        body=Transformer(
            replace(config, vocab_size=len(to_target)),
            embedding_VD=torch.cat([torch.zeros_like(masks_KD[:1]), masks_KD]),
            layers=[builder.layer(i) for i in range(config.n_layers)],
            norm=builder.norm("model.norm.weight", hidden),
            head=builder.linear("lm_head.weight", (len(to_target), hidden)),
            rope=rope_table(config, builder.device, max_positions + block_len + 1),
        ),
        tap_layers=taps,
        embedding_VD=embedding_VD,
        fc=builder.linear("model.fc.weight", (hidden, len(taps) * hidden)),
        hidden_norm=builder.norm("model.hidden_norm.weight", hidden),
        to_target=to_target.to(embedding_VD.device),
    )


def _tap_layers(file: HeadFile, target: ModelConfig) -> tuple[int, ...]:
    """Target layers whose input it reads."""
    card = file.raw_config.get("block_config")
    named = card.get("target_layers") if isinstance(card, dict) else None
    if not isinstance(named, list) or not named or not all(isinstance(i, int) for i in named):
        raise SpecmonError(f"{file.where} names no target layers in its config.json (block_config).")
    if not all(0 <= i <= target.n_layers for i in named):
        raise SpecmonError(
            f"The block drafter wants features of layers {named}; the target has {target.n_layers}."
        )
    return tuple(named)


def block_to_target(file: HeadFile, vocab_size: int) -> Tensor:
    """Target ids [V'] of a block drafter's indices. Raises: SpecmonError where it maps to others."""
    offsets = file.read("d2t").data.long().flatten()
    ids = torch.arange(len(offsets)) + offsets
    if not len(ids) or not maps_into(ids, vocab_size):
        raise SpecmonError(
            f"{file.where} maps its vocabulary (d2t) outside the target's {vocab_size} tokens, or twice to one."
        )
    return ids
