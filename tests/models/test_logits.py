"""Logits against Hugging Face transformers: families, RoPE kinds, prefill and cached decode, number formats."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.tiny_models import FAMILIES, TinyModels, hf_gguf_model, hf_model
from torch import Tensor

from specmon.core.models.pool import LoadedModel

Load = Callable[..., LoadedModel]
OwnLogits = Callable[..., Tensor]
KV = {"fp32": torch.float32, "bf16": torch.float32, "q4": torch.float32}


def ids(count: int, vocab_size: int = 300) -> list[int]:
    return random.Random(count).choices(range(4, vocab_size), k=count)


def theirs(folder: Path, tokens: list[int], dtype: torch.dtype = torch.float32) -> Tensor:
    logits: Tensor = hf_model(folder, dtype)(torch.tensor([tokens])).logits[0].float()
    return logits


def assert_close(found: Tensor, expected: Tensor, relative: float) -> None:
    """The largest error is below `relative` of the logits' spread."""
    assert float((found - expected).abs().max()) < relative * float(expected.std())


@pytest.mark.parametrize("rope", ["default", "llama3", "yarn"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fp32_logits_match_hugging_face(
    tiny: TinyModels, load: Load, own_logits: OwnLogits, family: str, rope: str
) -> None:
    folder, tokens = tiny.target(family, rope), ids(150)

    found = own_logits(load(folder).model, tokens, 100, torch.float32)

    assert_close(found, theirs(folder, tokens), 1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_logits_match_hugging_face(
    tiny: TinyModels, load: Load, own_logits: OwnLogits, family: str
) -> None:
    folder, tokens = tiny.target(family), ids(60)

    found = own_logits(load(folder, "bf16").model, tokens, 40, torch.float32)

    exact, rounded = theirs(folder, tokens), theirs(folder, tokens, torch.bfloat16)
    assert_close(found, exact, 0.35)
    ours, hf = ((x - exact).square().mean().sqrt() for x in (found, rounded))
    assert ours < 1.2 * hf  # no worse than transformers' own rounding


@pytest.mark.parametrize("prefilled", [1, 255, 256, 257, 300, 520])
def test_logits_do_not_depend_on_where_prefill_ends(
    tiny: TinyModels, load: Load, own_logits: OwnLogits, prefilled: int
) -> None:
    folder, tokens = tiny.target("qwen3"), ids(530)

    found = own_logits(load(folder).model, tokens, prefilled, torch.float32)

    assert_close(found, theirs(folder, tokens), 1e-3)


def test_decoded_rows_do_not_depend_on_their_company(
    tiny: TinyModels, load: Load, own_logits: OwnLogits
) -> None:
    """The bits of a decoded position are the same in passes of other sizes."""
    tokens = ids(40)
    for recipe, model in (
        ("fp32", tiny.target("qwen2")),
        ("bf16", tiny.target()),
        ("q4", tiny.gguf(kind="Q4_1")),
    ):
        loaded = load(model, recipe).model

        split = own_logits(loaded, tokens, 21, KV[recipe])[30:]

        again = own_logits(loaded, tokens[:30], 21, KV[recipe])
        whole = own_logits(loaded, tokens, 21, KV[recipe])
        assert torch.equal(whole[:30], again)
        assert torch.equal(whole[30:], split)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_gguf_gives_the_folder_s_logits(
    tiny: TinyModels, load: Load, own_logits: OwnLogits, family: str
) -> None:
    tokens = ids(40)

    found = own_logits(load(tiny.gguf(family)).model, tokens, 30, torch.float32)

    assert torch.equal(found, own_logits(load(tiny.target(family)).model, tokens, 30, torch.float32))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])  # transformers reads no head size of Qwen3
def test_quantised_gguf_matches_hugging_face(
    tiny: TinyModels, load: Load, own_logits: OwnLogits, family: str, kind: str
) -> None:
    path, tokens = tiny.gguf(family, kind), ids(40)

    found = own_logits(load(path).model, tokens, 30, torch.float32)

    assert_close(found, hf_gguf_model(path)(torch.tensor([tokens])).logits[0], 1e-3)


def test_q4_logits_match_the_weights_they_stand_for(
    tiny: TinyModels, load: Load, own_logits: OwnLogits
) -> None:
    path, tokens = tiny.gguf(kind="Q4_1"), ids(40)
    exact = own_logits(load(path, "fp32").model, tokens, 30, torch.float32)

    found = own_logits(load(path, "q4").model, tokens, 30, torch.float32)

    assert_close(found, exact, 0.35)


EMBEDDED_IDS = ids(24, 49152)


@pytest.fixture(scope="module")
def embedded_logits(embedded_path: Path) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = hf_gguf_model(embedded_path)(torch.tensor([EMBEDDED_IDS])).logits[0]
    return logits


@pytest.mark.embedded
@pytest.mark.parametrize(("recipe", "relative"), [("fp32", 1e-3), ("q4", 0.35)])
def test_embedded_logits_match_hugging_face(
    embedded_path: Path,
    embedded_logits: Tensor,
    load: Load,
    own_logits: OwnLogits,
    recipe: str,
    relative: float,
) -> None:
    found = own_logits(load(embedded_path, recipe).model, EMBEDDED_IDS, 16, torch.float32)

    assert_close(found, embedded_logits, relative)
