"""`check reference` on tiny models: within bounds as things are, and a fault where a logit is not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.tiny_models import CONTEXT, TinyModels
from torch import Tensor

from specmon.core.checks.hugging_face import HuggingFace
from specmon.core.checks.reference import Run, Yardstick, borders, compare, reference_ids
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.pool import LoadedModel, ModelPool, unwatched
from specmon.core.models.source import Source, open_model
from specmon.core.models.streamed import StreamedModel


def load(name: Path | str, recipe: str) -> LoadedModel:
    return ModelPool().target(str(name), recipe, "cpu:0", unwatched)


def source(name: Path | str) -> Source:
    return open_model(str(name), Path())


def compared(name: Path, *recipes: str, bent_from: int | None = None) -> list[Run]:
    """Runs of all `recipes`; the yardstick is of another model from position `bent_from` on."""
    ids = reference_ids(load(name, recipes[0]).tokenizer, CONTEXT, long=False)
    logits_of = partial(HuggingFace(source(name), "cpu:0").logits, ids)

    def bent(dtype: torch.dtype) -> Tensor:
        logits = logits_of(dtype).clone()
        if bent_from is not None:
            logits[bent_from:] = logits[bent_from:].flip(-1)
        return logits

    yardstick = Yardstick(ids, bent, recipes)
    return [run for recipe in recipes for run in compare(load(name, recipe), yardstick, long=False)]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_logits_are_within_bounds_for_every_family(tiny: TinyModels, family: str) -> None:
    runs = compared(tiny.target(family), "fp32", "bf16")

    assert [(r.recipe, r.path, r.border) for r in runs] == [
        (recipe, path, border)
        for recipe in ("fp32", "bf16")
        for border in (255, 256, 257)
        for path in ("prefill", "decode")
    ]
    assert [r.fault for r in runs] == [None] * 12
    assert runs[0].distance.max_error < 1e-4
    assert runs[-1].distance.max_total_variation > 1e-3


def test_a_quantised_gguf_is_compared_with_transformers_own_reading(tiny: TinyModels) -> None:
    assert [r.fault for r in compared(tiny.gguf("qwen2", "Q4_1"), "fp32")] == [None] * 6


@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
def test_position_at_which_the_distance_jumps_is_named(tiny: TinyModels, recipe: str) -> None:
    runs = compared(tiny.target(), recipe, bent_from=258)

    prefill, decode = runs[4:]
    assert prefill.border == 257
    assert prefill.fault is None
    assert decode.distance.jump == 258
    assert decode.fault is not None
    assert "total variation distance jumps to " in decode.fault
    assert " at position 258 (at most " in decode.fault


def test_streaming_kernels_are_compared_at_every_position_too(tiny: TinyModels) -> None:
    loaded = load(tiny.target("qwen3"), "fp32")
    loaded = replace(loaded, streamed=StreamedModel(loaded.model), context_length=48)
    ids = reference_ids(loaded.tokenizer, loaded.context_length, long=False)
    logits_of = partial(HuggingFace(loaded.source, "cpu:0").logits, ids)

    runs = list(compare(loaded, Yardstick(ids, logits_of, ["fp32"]), long=False))

    assert [(r.path, r.border, r.distance.n_positions, r.fault) for r in runs] == [
        ("prefill", 36, 36, None),
        ("decode", 36, 12, None),
    ]


def test_borders_are_those_that_the_context_holds() -> None:
    assert borders(8192, long=True) == (255, 256, 257, 2047, 2048, 2049)
    assert borders(8192, long=False) == (255, 256, 257)
    assert borders(268, long=True) == (255, 256)
    assert borders(48, long=True) == (36,)


def test_weights_that_hugging_face_cannot_have_are_refused_in_a_sentence(
    tiny: TinyModels, tmp_path: Path
) -> None:
    with pytest.raises(
        UsageError, match=r"^qwen2\.5-0\.5b \(random\) has no file that Hugging Face could read\."
    ):
        HuggingFace(source("random:qwen2.5-0.5b"), "cpu:0")

    def break_config(folder: Path) -> None:
        config = folder / "config.json"
        config.write_text(config.read_text().replace('"hidden_size": 64', '"hidden_size": 60'))

    broken = tiny.variant(tiny.target(), "broken-for-hf", break_config)
    with pytest.raises(SpecmonError, match=r"^Hugging Face cannot read .*[^.]\.$"):
        HuggingFace(source(broken), "cpu:0")
