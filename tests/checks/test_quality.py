"""`check quality` on tiny models: perplexity and top-1 agreement, and their bounds."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import TinyModels, hf_model

from specmon.core.checks.quality import BOUNDS, QualityBound, Read, quality, read
from specmon.core.checks.text import ids_of_length, shipped_text, text_ids
from specmon.core.models.pool import LoadedModel, ModelPool, unwatched


def load(tiny: TinyModels, recipe: str) -> LoadedModel:
    return ModelPool().target(str(tiny.target()), recipe, "cpu:0", unwatched)


def test_loss_and_best_tokens_are_hugging_faces(tiny: TinyModels) -> None:
    loaded = load(tiny, "fp32")
    ids = text_ids(loaded.tokenizer, 50)

    found = read(loaded, ids)
    with torch.inference_mode():
        logits = hf_model(tiny.target())(torch.tensor([ids])).logits[0, :-1]

    assert found.loss == pytest.approx(
        torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:])).item(), rel=1e-5
    )
    assert list(found.best) == logits.argmax(-1).tolist()


def test_quality_is_held_to_the_recipes_bound(tiny: TinyModels, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(tiny, "bf16")
    exact = Read(loss=2.0, best=tuple(range(100)))
    near = Read(loss=2.005, best=(*range(96), 0, 0, 0, 0))
    monkeypatch.setitem(BOUNDS, "bf16", QualityBound(perplexity=1.01, top1=0.95))

    found = quality(loaded, near, exact)
    assert (found.top1, found.fault) == (0.96, None)
    assert found.over_fp32 == pytest.approx(1.00501, abs=1e-5)

    far = quality(loaded, Read(loss=2.02, best=exact.best), exact)
    assert far.fault == "its perplexity is 1.020 times fp32's, above 1.01"
    flipped = quality(loaded, Read(loss=2.0, best=(*range(90), *[0] * 10)), exact)
    assert flipped.fault == "its best token is fp32's at 0.900 of the positions, below 0.95"
    lost = quality(loaded, Read(loss=float("nan"), best=exact.best), exact)
    assert lost.fault is not None


def test_shipped_text_is_long_enough_and_goes_round(tiny: TinyModels) -> None:
    assert 1_200 <= len(shipped_text().split()) <= 1_500
    assert ids_of_length([1, 2, 3], 7) == [1, 2, 3, 1, 2, 3, 1]
