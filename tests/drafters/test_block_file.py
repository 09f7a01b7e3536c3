"""Folders of block drafters: what is read, and what is refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny_models import TinyModels
from torch import Tensor

from specmon.core.drafters.base import Drafter
from specmon.core.drafters.registry import DrafterSpec, build_drafter, check_drafter
from specmon.core.errors import SpecmonError
from specmon.core.models.source import open_model

Weights = dict[str, Tensor]


def build(tiny: TinyModels, folder: Path, target: Path | None = None) -> Drafter:
    name = str(target or tiny.target())
    check_drafter(str(folder), name, open_model(name, tiny.root))
    return build_drafter(
        DrafterSpec(
            name=str(folder),
            target=name,
            recipe="fp32",
            device="cpu:0",
            draft_len=4,
            n_branches=0,
            cache_dir=tiny.root,
        )
    )


def with_weights(tiny: TinyModels, name: str, change: Callable[[Weights], None]) -> Path:
    """The tiny block drafter with other tensors."""

    def edit(copy: Path) -> None:
        weights = load_file(copy / "model.safetensors")
        change(weights)
        save_file(weights, copy / "model.safetensors")

    return tiny.variant(tiny.block(), name, edit)


def test_drafter_says_what_it_is_and_costs(tiny: TinyModels) -> None:
    info = build(tiny, tiny.block()).info

    assert (info.kind, info.label, info.tap_layers) == ("block", "block-llama-6", (0, 1, 2))
    matrices = [w for w in load_file(tiny.block() / "model.safetensors").values() if w.dim() == 2]
    masks, bf16, fp32 = 6 * 64, 2, 4
    assert info.weight_bytes == bf16 * (sum(w.numel() for w in matrices) - masks) + fp32 * 64  # the last norm
    layers, kv_heads, head_dim = 2, 1, 16
    assert info.kv_bytes_per_token == 2 * layers * kv_heads * head_dim * fp32


@pytest.mark.parametrize("part", [0.1, 0.5, 0.999])
def test_truncated_file_is_refused(tiny: TinyModels, part: float) -> None:
    def cut(copy: Path) -> None:
        path = copy / "model.safetensors"
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])

    with pytest.raises(SpecmonError, match="is not a whole safetensors file"):
        build(tiny, tiny.variant(tiny.block(), f"cut{part}", cut))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architectures": ["DFlashDraftModel"]}, r"does not know \(DFlashDraftModel\)"),
        ({"vocab_size": 310}, r"has 310 tokens, the target llama-default 300\."),
        ({"hidden_size": 32}, "is for a target of hidden size 32 and 300 tokens, this one has 64 and 300"),
        ({"block_config": {}}, "names no target layers in its config.json"),
        ({"block_config": {"target_layers": [0, "1"]}}, "names no target layers in its config.json"),
        ({"block_config": {"target_layers": [0, 1, 9]}}, r"features of layers \[0, 1, 9\]; the target has 3"),
        ({"block_config": {"target_layers": [0, 1]}}, r"stores model\.fc\.weight as \[64, 192\]"),
        ({"num_hidden_layers": 3}, r"has no tensor model\.layers\.2\."),
        ({"intermediate_size": 64}, r"stores model\.layers\.0\.mlp\.gate_proj\.weight as \[128, 64\]"),
    ],
)
def test_card_that_does_not_fit_is_refused(tiny: TinyModels, changes: dict[str, Any], sentence: str) -> None:
    mark = json.dumps(changes).translate(str.maketrans('/{}[]", :', "-" * 9))

    with pytest.raises(SpecmonError, match=sentence):
        build(tiny, tiny.variant(tiny.block(), mark, **changes))


def spoil(name: str, at: int, value: float) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[name].flatten()[at] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("no-masks", lambda w: w.pop("model.masks.weight"), r"has no tensor model\.masks\.weight"),
        (
            "empty-masks",
            lambda w: w.update({"model.masks.weight": torch.zeros(0, 64)}),
            r"has no masks \(model\.masks\.weight\), so it drafts nothing",
        ),
        ("no-map", lambda w: w.pop("d2t"), "has no tensor d2t"),
        (
            "outside",
            spoil("d2t", -1, 999),
            "maps its vocabulary .* outside the target's 300 tokens, or twice",
        ),
        ("twice", spoil("d2t", 1, -1), "maps its vocabulary .* outside the target's 300 tokens, or twice"),
        ("endless", spoil("model.fc.weight", 0, torch.inf), "not finite"),
        ("no-head", lambda w: w.pop("lm_head.weight"), r"has no tensor lm_head\.weight"),
        (
            "narrow",
            lambda w: w.update({"model.masks.weight": torch.ones(6, 32)}),
            r"masks\.weight as \[6, 32\]",
        ),
        ("scalar", lambda w: w.update({"model.masks.weight": torch.tensor(1.0)}), r"masks\.weight as \[\]"),
        ("flat", lambda w: w.update({"model.masks.weight": torch.ones(6)}), r"masks\.weight as \[6\]"),
    ],
)
def test_tensors_that_cannot_be_are_refused(
    tiny: TinyModels, name: str, change: Callable[[Weights], None], sentence: str
) -> None:
    with pytest.raises(SpecmonError, match=sentence):
        build(tiny, with_weights(tiny, name, change))


def test_drafter_for_another_target_is_refused(tiny: TinyModels) -> None:
    other = tiny.padded(tiny.target(), 310)

    with pytest.raises(SpecmonError, match=r"has 300 tokens, the target .* 310\."):
        build(tiny, tiny.block(), other)
