"""Whole models through the streaming kernels: the reference's numbers, and rows that stand alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import Passes, RowsOut
from specmon.core.models.random_weights import PREFIX, RandomFile
from specmon.core.models.recipe import Recipe, resolve_recipe
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.streamed import StreamedModel, StreamedPasses
from specmon.core.models.transformer import Transformer

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu:0"
FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
FP8_PROJECTIONS = Recipe(
    name="fp8-bf16-head", activation=torch.float32, kv=torch.float32, quantised=False, fp8=True
)
FP8 = replace(FP8_PROJECTIONS, name="fp8", fp8_head=True)
PROMPT, TOKENS = [5, 9, 23, 77, 14, 30, 8], [3, 50, 21, 90, 44]
TAPS = (1, 2)
Build = Callable[..., Transformer]


@pytest.fixture
def build(tiny: Any) -> Build:
    def model(family: str, recipe: Recipe = FP32) -> Transformer:
        file = HfFolder(tiny.two_layers(family))
        if recipe.fp8 and DEVICE != "cpu:0" and file.config.head_dim < 32:
            pytest.skip("a GPU multiplies 32 inputs of fp8 at least, and this model's heads are narrower")
        return build_transformer(file, recipe, DEVICE, max_positions=700, progress=lambda what, part: None)

    return model


def cache(model: Transformer, dtype: torch.dtype = torch.float32) -> KvCache:
    c = model.config
    return KvCache.of(c, n_slots=640, dtype=dtype, device=model.device)


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


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu:0", reason="needs a CUDA device")
@pytest.mark.parametrize("recipe", ["bf16", "fp8", "fp8-bf16-head"])
@pytest.mark.parametrize("shape", ["smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b"])
def test_verification_on_a_gpu_has_the_bits_of_single_steps(shape: str, recipe: str) -> None:
    """Shapes of real models, over and over: a race between kernels would show."""
    file = RandomFile(PREFIX + shape)
    with torch.inference_mode():
        model = build_transformer(
            file,
            resolve_recipe(recipe, DEVICE, file),
            DEVICE,
            max_positions=700,
            progress=lambda what, part: None,
        )
        streamed, kv = StreamedModel(model), cache(model, torch.bfloat16)
        passes = StreamedPasses(streamed, kv)
        for layer in range(model.config.n_layers):
            kv.keys(layer).normal_()
            kv.values(layer).normal_()
        for first in range(0, 480, 40):
            tokens = [(first + 7 * i) % 1000 for i in range(16)]
            together = passes.rows(tokens, first, (), logits=True)
            assert together.logits_RV is not None
            wanted, margins = together.logits_RV.clone(), list(together.margins or ())
            for i, token in enumerate(tokens):
                alone = passes.rows([token], first + i, (), logits=True)
                assert alone.logits_RV is not None
                assert torch.equal(alone.logits_RV[0], wanted[i]), (first, i)
                assert alone.margin(0) == margins[i]


@pytest.mark.parametrize("recipe", [FP8, FP8_PROJECTIONS], ids=lambda r: r.name)
def test_rounding_activations_to_fp8_keeps_logits_near(build: Build, recipe: Recipe) -> None:
    model = build("qwen3", recipe)
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


# --- whole drafts -----------------------------------------------------------------------------------------------


def steps_of(passes: Passes, tokens: Sequence[int], start: int, steps: int) -> tuple[list[RowsOut], Tensor]:
    """A chain by single passes, and the logits each token was chosen from."""
    found: list[RowsOut] = []
    seen: list[Tensor] = []
    for _ in range(steps):
        found.append(passes.rows(tokens, start, (), logits=True))
        logits = found[-1].logits_RV
        assert logits is not None
        seen.append(logits[-1].clone())
        start, tokens = start + len(tokens), found[-1].greedy[-1:]
    return found, torch.stack(seen)


@pytest.mark.parametrize(
    ("n_rows", "steps", "logits"), [(1, 1, False), (1, 4, True), (2, 4, False), (5, 3, True), (16, 2, True)]
)
def test_chain_has_the_bits_of_single_passes(build: Build, n_rows: int, steps: int, logits: bool) -> None:
    streamed_model = StreamedModel(build("qwen3"))
    tokens = [(7 * i + 3) % 90 for i in range(n_rows)]
    together, stepwise = (StreamedPasses(streamed_model, cache(streamed_model.reference)) for _ in range(2))
    for passes in (together, stepwise):
        passes.prefill(torch.tensor(PROMPT, device=streamed_model.reference.device), 0, ())

    want, want_logits = steps_of(stepwise, tokens, len(PROMPT), steps)
    got = together.chain(tokens, len(PROMPT), steps, logits=logits)

    assert got.tokens == [out.greedy[-1] for out in want]
    assert got.probs == [out.probs[-1] for out in want if out.probs]
    assert got.margins == [out.margins[-1] for out in want if out.margins]
    assert got.logits_SV is None or torch.equal(got.logits_SV, want_logits)
    assert (got.logits_SV is not None) == logits


def test_chain_drafts_what_the_reference_drafts(build: Build) -> None:
    model = build("llama")
    reference, streamed = (
        ReferencePasses(model, cache(model)),
        StreamedPasses(StreamedModel(model), cache(model)),
    )
    for passes in (reference, streamed):
        passes.prefill(torch.tensor(PROMPT, device=model.device), 0, ())

    want = reference.chain(TOKENS[:2], len(PROMPT), 4, logits=True)
    got = streamed.chain(TOKENS[:2], len(PROMPT), 4, logits=True)

    assert got.tokens == want.tokens
    assert got.probs == pytest.approx(want.probs, abs=1e-3)
    torch.testing.assert_close(got.logits_SV, want.logits_SV, rtol=1e-3, atol=1e-3)
    rows, logits = steps_of(reference, TOKENS[:2], len(PROMPT), 4)
    assert want.tokens == [out.greedy[-1] for out in rows]
    assert want.logits_SV is not None
    assert torch.equal(want.logits_SV, logits)
    assert want.probs == pytest.approx(logits.float().softmax(dim=1).amax(dim=1).tolist(), rel=1e-5)


def test_buffers_hold_nothing_of_the_request_before(build: Build) -> None:
    streamed_model = StreamedModel(build("llama"))
    device = streamed_model.reference.device
    used, fresh = (StreamedPasses(streamed_model, cache(streamed_model.reference)) for _ in range(2))
    used.prefill(torch.tensor([90, 2, 41] * 5, device=device), 0, ())
    used.chain([8, 9, 10], 15, 6, logits=True)
    used.rows([60] * 16, 15, (), logits=True)

    for passes in (used, fresh):
        passes.prefill(torch.tensor(PROMPT, device=device), 0, ())
    again, first = (passes.chain(TOKENS[:1], len(PROMPT), 4, logits=True) for passes in (used, fresh))

    assert (again.tokens, again.probs, again.margins) == (first.tokens, first.probs, first.margins)
    assert again.logits_SV is not None
    assert first.logits_SV is not None
    assert torch.equal(again.logits_SV, first.logits_SV)


@pytest.mark.parametrize(("n_rows", "steps"), [(0, 1), (17, 1), (1, 0), (1, 17)])
def test_chain_that_cannot_be_is_refused(build: Build, n_rows: int, steps: int) -> None:
    model = build("llama")
    for passes in (ReferencePasses(model, cache(model)), StreamedPasses(StreamedModel(model), cache(model))):
        with pytest.raises(ValueError, match="cannot be: 1 to 16 each"):
            passes.chain([1] * n_rows, 0, steps, logits=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="what a GPU's host launches is counted by the gpu test")
def test_without_a_gpu_there_are_no_launches_to_count(build: Build) -> None:
    model = build("llama")
    for passes in (ReferencePasses(model, cache(model)), StreamedPasses(StreamedModel(model), cache(model))):
        assert passes.rows([1], 0, (), logits=False).launches is None
        assert passes.chain([1], 0, 2, logits=False).launches is None
        assert not passes.captures
