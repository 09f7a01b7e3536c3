"""The block drafter's training form: blocks see what a draft would see, whatever else is in the row."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.tiny_models import TinyModels
from torch import Tensor

from specmon.core.drafters.block_file import load_block_drafter
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.recipe import Recipe
from specmon.core.training.block import BlockLearner
from specmon.core.training.corpus import Batch
from specmon.core.training.export import as_stored, export
from specmon.core.training.forms import Decoder, apply

CPU = torch.device("cpu")
ONE = [1, 58, 85, 76, 87, 72, 224, 68, 0, 2, 90]
OTHER = [5, 90, 91, 14, 33, 120, 9, 60, 61]
TAPS = (0, 1, 2)
K = 6


@pytest.fixture
def learner(target: Decoder) -> BlockLearner:
    ids = torch.arange(0, target.config.vocab_size, 2)
    learner = BlockLearner(
        target.config, taps=TAPS, draft_ids=ids, block_len=K, layers=2, accept_weight=0.0, device=CPU
    )
    learner.begin(target, 1, batch(ONE))
    return learner


def batch(*conversations: list[int], turn: int = 0) -> Batch:
    """One row, all of it greedy answers."""
    tokens = torch.tensor([[token for text in conversations for token in text]])
    numbers = torch.tensor([[i for i, text in enumerate(conversations) for _ in text]])
    everything = torch.ones_like(tokens, dtype=torch.bool)
    return Batch(tokens, numbers, everything, everything, turn)


def filled(learner: BlockLearner, target: Decoder, row: Batch, anchors: list[int]) -> Tensor:
    mask = row.mask_BTT()
    _, features = target(row.tokens, mask, TAPS)
    assert features is not None
    embedded = target.model.embed_tokens(row.tokens).float()
    return learner.module.fill(embedded, features, mask, torch.tensor(anchors))[0]


@torch.no_grad()
def test_blocks_of_a_packed_row_are_those_of_each_conversation_alone(
    learner: BlockLearner, target: Decoder
) -> None:
    anchors = [0, 3, len(ONE) - 1, len(ONE), len(ONE) + 5]
    together = filled(learner, target, batch(ONE, OTHER), anchors)

    for place, anchor in enumerate(anchors):
        text, at = (ONE, anchor) if anchor < len(ONE) else (OTHER, anchor - len(ONE))
        alone = filled(learner, target, batch(text[: at + 1]), [at])[0]
        torch.testing.assert_close(together[place], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("at", [0, 1, 7, len(ONE) - 1])
@torch.no_grad()
def test_logits_are_those_of_inference(
    learner: BlockLearner, target: Decoder, tiny: TinyModels, tmp_path: Path, at: int, int8: bool
) -> None:
    export(learner, tmp_path, int8=int8)
    recipe = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
    embedding = target.model.embed_tokens.weight
    model = load_block_drafter(
        HfFolder(tmp_path), target.config, embedding, recipe, "cpu:0", max_positions=32
    )
    kv = KvCache.of(model.config, n_slots=32, dtype=torch.float32, device="cpu")
    row = batch(ONE)
    _, features = target(row.tokens, row.mask_BTT(), TAPS)
    assert features is not None

    for first, end in ((0, at // 2), (at // 2, at)):  # as rounds hand them on
        model.keep(features[0, first:end], kv, first)
    found = model.fill(ONE[at], kv, at)

    stored = as_stored(learner, int8=int8)
    assert isinstance(stored, BlockLearner)
    wanted = apply(stored.module.lm_head, filled(stored, target, row, [at])[0])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert model.to_target.tolist() == learner.module.draft_ids.tolist()


@torch.no_grad()
def test_a_block_sees_nothing_from_its_anchor_on_but_the_anchor(
    learner: BlockLearner, target: Decoder
) -> None:
    changed = [*ONE[:6], 200, 201, 202, 203, 204]
    before, after = (filled(learner, target, batch(text), [5]) for text in (ONE, changed))
    assert torch.equal(before, after)

    other_anchor = filled(learner, target, batch([*ONE[:5], 200, *ONE[6:]]), [5])
    other_text = filled(learner, target, batch([*ONE[:2], 200, *ONE[3:]]), [5])
    assert not torch.allclose(before, other_anchor)
    assert not torch.allclose(before, other_text)


@torch.no_grad()
def test_all_positions_of_a_block_see_each_other(learner: BlockLearner, target: Decoder) -> None:
    before = filled(learner, target, batch(ONE), [5])[0]
    learner.module.model.masks.weight[K - 1] += 1.0

    assert not torch.allclose(filled(learner, target, batch(ONE), [5])[0, 0], before[0])


@torch.no_grad()
def test_loss_is_of_every_answered_place_behind_every_fourth_token(
    learner: BlockLearner, target: Decoder
) -> None:
    """All tokens are known and answers: 20 of them give anchors 0, 4, … or 2, 6, …, whose places are counted by hand."""
    learner = BlockLearner(
        target.config,
        taps=TAPS,
        draft_ids=torch.arange(target.config.vocab_size),
        block_len=K,
        layers=1,
        accept_weight=0.0,
        device=CPU,
    )
    learner.begin(target, 1, batch(ONE))
    weights = [0.8**i for i in range(K)]

    def counted(length: int, first: int) -> float:
        return sum(
            weights[i] for anchor in range(first, length, 4) for i in range(K) if anchor + 1 + i < length
        )

    for turn, first in ((0, 0), (2, 2), (5, 1)):
        found = learner.loss(target, batch([*ONE, *OTHER], turn=turn)).n_places
        assert float(found) == pytest.approx(counted(len(ONE) + len(OTHER), first))
