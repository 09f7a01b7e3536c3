"""Whole models through the streaming kernels: the reference's numbers, and rows that stand alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import ReferencePasses
from specmon.core.models.recipe import Recipe
from specmon.core.models.streamed import StreamedModel, StreamedPasses
from specmon.core.models.transformer import Transformer

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu:0"
FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
FP8_PROJECTIONS = Recipe(
    name="fp8-bf16-head", activation=torch.float32, kv=torch.float32, quantised=False, fp8=True
)
FP8 = replace(FP8_PROJECTIONS, name="fp8", fp8_head=True)
PROMPT, TOKENS = [5, 9, 23, 77, 14, 30, 8], [3, 50, 21, 90, 44]
TAPS = (1, 3)
Build = Callable[..., Transformer]


@pytest.fixture
def build(tiny: Any) -> Build:
    def model(family: str, recipe: Recipe = FP32) -> Transformer:
        file = HfFolder(tiny.target(family))
        return build_transformer(file, recipe, DEVICE, max_positions=700, progress=lambda what, part: None)

    return model


def cache(model: Transformer) -> KvCache:
    c = model.config
    return KvCache(
        n_layers=c.n_layers,
        n_kv_heads=c.n_kv_heads,
        head_dim=c.head_dim,
        n_slots=640,
        dtype=torch.float32,
        device=str(model.device),
    )


@pytest.mark.parametrize("family", ["llama", "llama-tied", "qwen2", "qwen3"])
def test_streamed_rows_give_the_references_numbers(build: Build, family: str) -> None:
    model = build(family)
    reference = ReferencePasses(model, cache(model))
    streamed = StreamedPasses(StreamedModel(model), cache(model))
    ids = torch.tensor(PROMPT, device=model.device)
    for passes in (reference, streamed):
        passes.prefill(ids, 0, ())

    want = reference.rows(TOKENS, len(PROMPT), TAPS, logits=True)
    got = streamed.rows(TOKENS, len(PROMPT), TAPS, logits=True)

    assert got.greedy == want.greedy
    torch.testing.assert_close(got.logits_RV, want.logits_RV, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(got.features_RF, want.features_RF, rtol=1e-3, atol=1e-3)
    assert [got.margin(i) for i in range(5)] == pytest.approx([want.margin(i) for i in range(5)], abs=2e-3)


@pytest.mark.parametrize("recipe", [FP32, FP8, FP8_PROJECTIONS], ids=lambda r: r.name)
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_streamed_verification_has_the_bits_of_single_steps(
    build: Build, family: str, recipe: Recipe
) -> None:
    model = build(family, recipe)
    streamed_model = StreamedModel(model)
    ids = torch.tensor(PROMPT, device=model.device)
    at_once, stepwise = (StreamedPasses(streamed_model, cache(model)) for _ in range(2))
    for passes in (at_once, stepwise):
        passes.prefill(ids, 0, ())

    verified = at_once.rows(TOKENS, len(PROMPT), (), logits=True)
    assert verified.logits_RV is not None
    together = verified.logits_RV.clone()
    for i, token in enumerate(TOKENS):
        step = stepwise.rows([token], len(PROMPT) + i, (), logits=True)
        assert step.logits_RV is not None
        assert torch.equal(step.logits_RV[0], together[i])
        assert step.greedy == verified.greedy[i : i + 1]
        assert step.margin(0) == verified.margin(i)


@pytest.mark.parametrize("recipe", [FP8, FP8_PROJECTIONS], ids=lambda r: r.name)
def test_rounding_activations_to_fp8_keeps_logits_near(build: Build, recipe: Recipe) -> None:
    model = build("llama", recipe)
    reference = ReferencePasses(model, cache(model))
    streamed = StreamedPasses(StreamedModel(model), cache(model))
    ids = torch.tensor(PROMPT, device=model.device)
    for passes in (reference, streamed):
        passes.prefill(ids, 0, ())

    want, got = (p.rows(TOKENS, len(PROMPT), (), logits=True).logits_RV for p in (reference, streamed))
    assert want is not None
    assert got is not None
    near = torch.nn.functional.cosine_similarity(want.float(), got, dim=1)
    assert not torch.equal(want.float(), got)
    bound = (
        0.98 if model.device.type == "cuda" else 0.85
    )  # the interpreter drops a carry when it rounds to e4m3
    assert bool((near > bound).all()), near
