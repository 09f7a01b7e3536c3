"""A block filled in one piece on the streaming kernels, against the same drafter in torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.gpus import needs_gpu
from tests.tiny_models import TinyModels

from specmon.core.drafters.base import Outcome, Proposal
from specmon.core.drafters.block import BlockDrafter, BlockModel
from specmon.core.drafters.block_file import load_block_drafter
from specmon.core.drafters.streamed_block import StreamedBlock
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache

from .conftest import FP32, target_embedding

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
N_SLOTS = 320


def block_model(target: Path, drafter: Path) -> BlockModel:
    embedding = target_embedding(target).to(DEVICE)
    return load_block_drafter(
        HfFolder(drafter), HfFolder(target).config, embedding, FP32, str(DEVICE), max_positions=N_SLOTS
    )


def cache(model: BlockModel) -> KvCache:
    """Its unused slots are poisoned."""
    kv = KvCache.of(model.config, n_slots=N_SLOTS, dtype=torch.float32, device=DEVICE)
    kv.poison(0)
    return kv


def features(model: BlockModel, n: int) -> torch.Tensor:
    return torch.randn(n, model.fc.in_features, device=DEVICE)


@pytest.fixture(scope="module", params=["llama", "qwen3", "llama-tied"])
def model(request: pytest.FixtureRequest, tiny: TinyModels) -> BlockModel:
    return block_model(tiny.target(request.param), tiny.block(request.param))


@pytest.mark.parametrize("n_before", [0, 1, 20, 249, 254, 260])
@pytest.mark.parametrize("n_kept", [0, 1, 7, 16])
def test_block_is_the_one_that_torch_fills(model: BlockModel, n_before: int, n_kept: int) -> None:
    """Its rows lie below, across and above the border of two chunks of attention."""
    whole, torchs = cache(model), cache(model)
    drafts = StreamedBlock(model, whole, n_best=15)
    before, new = features(model, n_before), features(model, n_kept)
    if n_before:
        drafts.keep(before, 0)
        model.keep(before, torchs, 0)

    found = drafts.draft(9, new, n_before)

    if n_kept:
        model.keep(new, torchs, n_before)
    end = n_before + n_kept
    probs, index = model.fill(9, torchs, end).softmax(dim=1).topk(15)
    assert found.tokens == model.to_target[index].tolist()
    torch.testing.assert_close(torch.tensor(found.probs), probs.cpu(), rtol=1e-3, atol=1e-5)
    for layer in range(model.config.n_layers):
        for mine, theirs in (
            (whole.keys(layer), torchs.keys(layer)),
            (whole.values(layer), torchs.values(layer)),
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("n_nodes", [0, 15])
def test_rounds_draft_what_torch_drafts(model: BlockModel, n_nodes: int) -> None:
    """Two turns: the second takes more features at once than a draft fuses, and goes on from what the first left."""
    kv = cache(model)
    drafters = [
        BlockDrafter(model, kv, "tiny", n_nodes, StreamedBlock(model, kv, max(n_nodes, 1))),
        BlockDrafter(model, cache(model), "tiny", n_nodes),
    ]
    text, known = [3, 5, 8, 13, 21], features(model, 300)
    for turn in range(2):
        first = 5 * turn
        for drafter in drafters:
            drafter.begin(list(text), known[first : len(text) - 1], first)
        for n_accepted in (0, 2, 4):
            drafts = [drafter.draft(4) for drafter in drafters]
            assert_same(*drafts)
            path = list(drafts[0].tokens[:1]) * n_accepted
            outcome = Outcome(
                accepted=tuple(path),
                bonus=7,
                features_AF=known[len(text) - 1 : len(text) + n_accepted],
            )
            for drafter in drafters:
                drafter.commit(outcome)
            text += [*path, 7]
        text += [2] * 30


def assert_same(found: Proposal, wanted: Proposal) -> None:
    assert found.tokens == wanted.tokens
    assert found.parents == wanted.parents
    assert found.probs == pytest.approx(wanted.probs, rel=1e-3)


def test_more_features_than_rows_are_kept_before_the_draft(model: BlockModel) -> None:
    kv = cache(model)
    known = features(model, 40)
    drafters = [
        BlockDrafter(model, kv, "tiny", 0, StreamedBlock(model, kv, 1)),
        BlockDrafter(model, cache(model), "tiny", 0),
    ]
    for drafter in drafters:
        drafter.begin([1, 2], known[:1], 0)
        for at in (1, 11, 21):
            drafter.commit(Outcome(accepted=(4,) * 9, bonus=5, features_AF=known[at : at + 10]))

    assert_same(*(drafter.draft(4) for drafter in drafters))


def test_features_that_do_not_fit_are_refused(model: BlockModel) -> None:
    drafts = StreamedBlock(model, cache(model), 1)
    with pytest.raises(ValueError, match="up to 16 positions need features"):
        drafts.draft(1, features(model, 17), 0)
    with pytest.raises(ValueError, match="up to 16 positions need features"):
        drafts.draft(1, torch.zeros(2, 3), 0)


@pytest.mark.gpu
@needs_gpu
def test_replayed_blocks_are_queued_ones(model: BlockModel) -> None:
    replayed, queued = cache(model), cache(model)
    drafts = StreamedBlock(model, replayed, 15), StreamedBlock(model, queued, 15, graphs=False)
    known = features(model, 60)
    at = 0
    for n_kept in (3, 5, 3, 1, 5, 3):
        new = known[at : at + n_kept]
        a, b = (each.draft(at % 11, new, at) for each in drafts)
        assert (a.tokens, a.probs) == (b.tokens, b.probs)
        at += n_kept
    assert a.launches == 1
    assert b.launches is not None
    assert b.launches > 10
