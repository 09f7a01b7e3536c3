"""One EAGLE-3 head for the tiny target, written as its publishers lay heads out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tests.tiny_models import HIDDEN, TinyModels
from torch import Tensor

from specmon.core.drafters.eagle3_file import load_eagle3
from specmon.core.drafters.head_check import Sample, features_of, run_head
from specmon.core.models.build import rope_table
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.pool import LoadedModel

from .conftest import FP32, N_SLOTS

Weights = dict[str, Tensor]
Card = dict[str, Any]
THETA = 10_000.0  # the tiny target's
LAYOUTS = ("safeailab", "sglang", "vllm", "speculators")


def read_head(folder: Path) -> tuple[Weights, Card]:
    return load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())


def write_head(folder: Path, weights: Weights, card: Card) -> Path:
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(card))
    return folder


def changed(tiny: TinyModels, folder: Path, edit: Callable[[Weights, Card], object]) -> Path:
    """A copy of the tiny head after `edit`."""
    weights, card = read_head(tiny.eagle3())
    edit(weights, card)
    return write_head(folder, weights, card)


def in_layout(source: Path, folder: Path, layout: str) -> Path:
    """A copy of the head in `source` as `layout` has it."""
    weights, card = read_head(source)
    layers = card.pop("eagle_config")["eagle_aux_hidden_state_layer_ids"]
    if layout == "safeailab":  # names no layers: the usual ones
        return write_head(folder, weights, card)
    if layout == "sglang":
        card["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": layers}
        return write_head(folder, {f"model.{k}": v for k, v in weights.items()}, card)
    weights = {k.replace("midlayer.", "layers.0."): v for k, v in weights.items()}
    card["eagle_aux_hidden_state_layer_ids"] = layers
    if layout == "vllm":
        return write_head(folder, weights, {**card, "architectures": ["Eagle3LlamaForCausalLM"]})
    own = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3"}
    return write_head(
        folder,
        weights,
        own | {"eagle_aux_hidden_state_layer_ids": layers, "transformer_layer_config": card},
    )


def random_norms(weights: Weights, card: Card) -> None:
    """Give a head all that only some publishers have: norms before `fc`, a normed residual, its own embedding."""
    torch.manual_seed(8)
    weights["input_norm.weight"] = 1 + 0.2 * torch.randn(3 * HIDDEN)
    weights["embed_tokens.weight"] = 0.3 * torch.randn(card["vocab_size"], HIDDEN)
    card["norm_before_residual"] = card["norm_before_fc"] = True


def fitted(
    tiny: TinyModels,
    target: LoadedModel,
    sample: Sample,
    folder: Path,
    taps: tuple[int, ...],
    *,
    normed: bool = False,
    theta: float = THETA,
    **card: Any,
) -> HfFolder:
    """A head over the target's whole vocabulary that was made for `taps`, with `card` for what is said of it.

    It is not trained: the output matrix of a random one is fitted to the sample's text, on the features of one reading.
    """

    def whole(weights: Weights, raw: Card) -> None:
        del weights["d2t"], weights["t2d"]
        weights["lm_head.weight"] = torch.zeros(tiny.vocab_size, weights["norm.weight"].shape[0])
        for p in ("q", "o"):  # attention that looks at few positions and weighs much: RoPE matters
            weights[f"midlayer.self_attn.{p}_proj.weight"] *= 16
        raw["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(taps)}

    source = changed(tiny, folder / "source", whole)
    config, embedding = target.model.config, target.model.embedding_VD
    head = load_eagle3(HfFolder(source), config, embedding, FP32, "cpu:0", max_positions=N_SLOTS)
    turned = replace(head.config, rope=replace(head.config.rope, theta=theta))
    head = replace(head, rope=rope_table(turned, torch.device("cpu"), N_SLOTS))
    _, out = run_head(head, sample, features_of(sample, target.model, taps, normed=normed))
    normed_out = torch.rms_norm(out, head.norm.shape, head.norm, head.config.norm_eps)[sample.n_prompt - 2 :]
    wanted = torch.nn.functional.one_hot(torch.tensor(sample.tokens[sample.n_prompt :]), tiny.vocab_size)
    weights, raw = read_head(source)
    weights["lm_head.weight"] = (torch.linalg.pinv(normed_out, rtol=1e-3) @ wanted.float()).T
    return HfFolder(write_head(folder / "head", weights, raw | card))
