"""What is exported proposes what the training form proposes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.drafters.registry import DrafterSpec, build_drafter
from specmon.core.training.block import BlockLearner
from specmon.core.training.corpus import Batch
from specmon.core.training.draft import DraftLearner, draft_config
from specmon.core.training.eagle3 import Eagle3Learner
from specmon.core.training.export import as_stored, export
from specmon.core.training.forms import Decoder
from specmon.core.training.learner import Learner

CPU = torch.device("cpu")
TEXT = [1, 58, 85, 76, 87, 72, 224, 68, 0, 2, 90, 91, 14, 33, 120, 9]
TAPS = (0, 1, 2)
K = 4


def draft_learner(target: Decoder) -> Learner:
    learner = DraftLearner(draft_config(target.config, 64, 2), 0.0, CPU)
    learner.begin(target, 1, row(TEXT))
    return learner


def eagle3_learner(target: Decoder) -> Learner:
    ids = torch.arange(0, target.config.vocab_size, 2)
    learner = Eagle3Learner(target.config, taps=TAPS, draft_ids=ids, unroll=4, accept_weight=0.5, device=CPU)
    learner.begin(target, 1, row(TEXT))
    return learner


def block_learner(target: Decoder) -> Learner:
    ids = torch.arange(0, target.config.vocab_size, 2)
    learner = BlockLearner(
        target.config, taps=TAPS, draft_ids=ids, block_len=6, layers=2, accept_weight=0.5, device=CPU
    )
    learner.begin(target, 1, row(TEXT))
    return learner


def row(tokens: list[int]) -> Batch:
    ids = torch.tensor([tokens])
    everything = torch.ones_like(ids, dtype=torch.bool)
    return Batch(ids, torch.zeros_like(ids), everything, everything)


def proposals(folder: Path, target: Decoder, tiny: TinyModels) -> list[int]:
    """What the exported drafter drafts after TEXT."""
    drafter = build_drafter(
        DrafterSpec(
            name=str(folder),
            target=str(tiny.target()),
            recipe="fp32",
            device="cpu:0",
            draft_len=K,
            n_branches=1,
            cache_dir=tiny.root,
        )
    )
    batch = row(TEXT)
    _, features = target(batch.tokens, batch.mask_BTT(), TAPS)
    with torch.inference_mode():
        drafter.begin(TEXT, features[0, :-1] if drafter.info.tap_layers else None, 0)
        return list(drafter.draft(K).tokens)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("build", [draft_learner, eagle3_learner, block_learner])
@torch.no_grad()
def test_exported_drafter_proposes_what_the_training_form_does(
    target: Decoder, tiny: TinyModels, tmp_path: Path, build: Callable[[Decoder], Learner], int8: bool
) -> None:
    learner = build(target)
    export(learner, tmp_path, int8=int8)
    drafted = proposals(tmp_path, target, tiny)

    trained = as_stored(learner, int8=int8)
    at = len(TEXT) - 1
    assert trained.agreement(target, row([*TEXT, *drafted, 5, 5]), K)[0, at].tolist() == [True] * K
    for wrong in range(K):
        other = [*drafted[:wrong], drafted[wrong] + 1, *drafted[wrong + 1 :]]
        right = trained.agreement(target, row([*TEXT, *other, 5, 5]), K)[0, at]
        assert right[: wrong + 1].tolist() == [True] * wrong + [False]


@pytest.mark.parametrize("build", [draft_learner, eagle3_learner, block_learner])
def test_loss_reaches_every_weight(target: Decoder, build: Callable[[Decoder], Learner]) -> None:
    learner = build(target)

    learner.loss(target, row([*TEXT, *TEXT])).total.backward()

    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in learner.module.parameters())


def test_eagle3_folder_has_the_published_layout(target: Decoder, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    learner = eagle3_learner(target)
    export(learner, tmp_path, int8=False)

    tensors = load_file(tmp_path / "model.safetensors")
    assert {name.split(".")[0] for name in tensors} == {"fc", "midlayer", "norm", "lm_head", "d2t", "t2d"}
    ids = torch.arange(len(tensors["d2t"])) + tensors["d2t"]
    assert tensors["d2t"].dtype == torch.int64
    assert tensors["t2d"].nonzero().flatten().tolist() == ids.tolist()
    raw = learner.raw_config()
    assert raw["draft_vocab_size"] == len(ids)
    assert raw["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == list(TAPS)
