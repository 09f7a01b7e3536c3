"""The training form computes what the inference form computes."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import FAMILIES, TinyModels

from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk
from specmon.core.models.pool import ModelPool
from specmon.core.training.corpus import Batch
from specmon.core.training.forms import frozen_decoder

CPU = torch.device("cpu")
ONE, OTHER = [9, 8, 7, 30, 31, 60, 61], [5, 90, 91, 14]


def batch(*conversations: list[int]) -> Batch:
    """One row of conversations, nothing of which is learnt."""
    tokens = torch.tensor([[token for text in conversations for token in text]])
    numbers = torch.tensor([[i for i, text in enumerate(conversations) for _ in text]])
    nothing = torch.zeros_like(tokens, dtype=torch.bool)
    return Batch(tokens, numbers, nothing, nothing)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_hidden_states_and_features_are_those_of_inference(tiny: TinyModels, family: str) -> None:
    folder = tiny.target(family)
    loaded = ModelPool(tiny.root).target(str(folder), "fp32", "cpu:0", lambda what, fraction: None)
    kv = KvCache.of(loaded.model.config, n_slots=16, dtype=torch.float32, device="cpu")
    expected, taps = loaded.model.hidden(torch.tensor(ONE), kv, Chunk(0, len(ONE)), (2, 0, 3))
    row = batch(ONE)

    hidden, features = frozen_decoder(HfFolder(folder), CPU, torch.float32)(
        row.tokens, row.mask_BTT(), (2, 0, 3)
    )

    torch.testing.assert_close(hidden[0], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(features[0], taps, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_conversations_in_one_row_know_nothing_of_each_other(tiny: TinyModels) -> None:
    model = frozen_decoder(HfFolder(tiny.target()), CPU, torch.float32)
    both, alone = batch(ONE, OTHER), batch(OTHER)

    in_company, _ = model(both.tokens, both.mask_BTT())
    by_itself, _ = model(alone.tokens, alone.mask_BTT())

    torch.testing.assert_close(in_company[0, len(ONE) :], by_itself[0], rtol=1e-3, atol=1e-3)
