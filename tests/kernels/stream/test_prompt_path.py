"""Whole prompts through the Triton backend: the reference's numbers, and the same bits with and without graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import Passes
from specmon.core.models.prefill import SIZES, chunk_plan, size_for
from specmon.core.models.recipe import Recipe
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.streamed import StreamedModel, StreamedPasses
from specmon.core.models.transformer import Transformer

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu:0"
FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
BF16 = Recipe(name="bf16", activation=torch.bfloat16, kv=torch.bfloat16, quantised=False)
TAPS = (1, 0, 2)
SLOTS = 300
Build = Callable[..., Transformer]
Found = tuple[Tensor, Tensor, KvCache]


@pytest.fixture
def build(tiny: Any) -> Build:
    def model(family: str, recipe: Recipe = FP32) -> Transformer:
        file = HfFolder(tiny.two_layers(family))
        return build_transformer(file, recipe, DEVICE, max_positions=SLOTS, progress=lambda what, part: None)

    return model


def cache(model: Transformer, recipe: Recipe = FP32) -> KvCache:
    c = model.config
    kv = KvCache.of(c, n_slots=SLOTS, dtype=recipe.kv, device=model.device)
    kv.poison(0)
    return kv


def prompt(n_tokens: int, model: Transformer) -> Tensor:
    generator = torch.Generator().manual_seed(n_tokens)
    return torch.randint(model.config.vocab_size, (n_tokens,), generator=generator).to(model.device)


def run(passes: Passes, ids: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """Logits after the last token and the features of all."""
    features = []
    for start, length in chunk_plan(0, len(ids), chunk):
        logits, kept = passes.prefill(ids[start : start + length], start, TAPS)
        assert kept is not None
        features.append(kept)
    return logits, torch.cat(features)


@pytest.mark.parametrize("family", ["llama", "llama-tied", "qwen2", "qwen3"])
@pytest.mark.parametrize(("n_tokens", "chunk"), [(1, 64), (70, 64), (90, 256)])
def test_a_prompt_gives_the_references_numbers(build: Build, family: str, n_tokens: int, chunk: int) -> None:
    model = build(family)
    ids, caches = prompt(n_tokens, model), (cache(model), cache(model))
    want_logits, want_features = run(ReferencePasses(model, caches[0]), ids, chunk)
    logits, features = run(StreamedPasses(StreamedModel(model), caches[1]), ids, chunk)

    torch.testing.assert_close(logits, want_logits, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(features, want_features, rtol=1e-3, atol=1e-3)
    for layer in range(model.config.n_layers):
        for side in (KvCache.keys, KvCache.values):
            want, found = (side(kv, layer) for kv in caches)
            torch.testing.assert_close(found[:n_tokens], want[:n_tokens], rtol=1e-3, atol=1e-3)
            assert found[n_tokens:].isnan().all()


def test_a_chunk_may_end_with_the_cache(build: Build) -> None:
    model = build("qwen2")
    ids, kv = prompt(SLOTS, model), cache(model)
    passes = StreamedPasses(StreamedModel(model), kv)
    want, _ = run(ReferencePasses(model, cache(model)), ids, 256)

    logits, _ = run(passes, ids, 256)  # the last chunk of 44 runs in 64 rows, of which 20 lie past the cache

    torch.testing.assert_close(logits, want, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="43 rows from 258"):
        passes.prefill(ids[257:], 258, ())


def test_requests_share_buffers_and_not_results(build: Build) -> None:
    model = build("llama")
    long, short = prompt(60, model), prompt(9, model)
    streamed = StreamedModel(model)
    passes = StreamedPasses(streamed, cache(model))
    first_logits, first = passes.prefill(long, 0, TAPS)
    kept = first_logits.clone()
    logits, features = passes.prefill(short, 0, TAPS)
    alone = StreamedPasses(streamed, cache(model)).prefill(short, 0, TAPS)

    assert torch.equal(first_logits, kept)
    assert torch.equal(logits, alone[0])
    assert first is not None
    assert features is not None
    assert alone[1] is not None
    assert torch.equal(features, alone[1])
    assert (first.shape, features.shape) == ((60, 3 * 64), (9, 3 * 64))


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_decode_goes_on_as_after_the_references_prefill(build: Build, family: str) -> None:
    model = build(family)
    ids, texts = prompt(20, model), []
    for by_reference in (True, False):
        kv = cache(model)
        passes = StreamedPasses(StreamedModel(model), kv)
        first = ReferencePasses(model, kv) if by_reference else passes
        logits, _ = first.prefill(ids, 0, ())
        text = [int(logits.argmax())]
        while len(text) < 8:
            text += passes.rows(text[-1:], len(ids) + len(text) - 1, (), logits=False).greedy
        texts.append(text)

    assert texts[0] == texts[1]


def test_sizes_grow_and_end_with_the_chunk() -> None:
    assert list(SIZES) == sorted(set(SIZES))
    assert SIZES[-1] == StreamedPasses.chunk
    assert [size_for(n) for n in (1, 64, 65, 512, 513, SIZES[-1])] == [64, 64, 128, 512, 1024, SIZES[-1]]


# --- on a GPU ----------------------------------------------------------------------------------------------------

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_a_prompt_in_bf16_is_near_the_reference(build: Build, family: str) -> None:
    model = build(family, BF16)
    ids = prompt(150, model)
    want = run(ReferencePasses(model, cache(model, BF16)), ids, 128)
    found = run(StreamedPasses(StreamedModel(model), cache(model, BF16)), ids, 128)

    for a, b in zip(found, want, strict=True):
        near = torch.nn.functional.cosine_similarity(a.float(), b.float(), dim=1)
        assert bool((near > 0.99).all()), near.min()


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_a_graph_has_the_bits_of_the_kernels_one_by_one(build: Build, family: str) -> None:
    model = build(family, BF16)
    streamed = StreamedModel(model)

    def found(graphs: bool, times: int) -> Found:
        kv = cache(model, BF16)
        passes = StreamedPasses(streamed, kv, graphs=graphs)
        for n_tokens in (150, 20, 150, 20)[
            -2 * times :
        ]:  # the second time a size is met its graph is replayed
            logits, features = run(passes, prompt(n_tokens, model), 128)
        return logits, features, kv

    once, replayed, eager = found(True, 1), found(True, 2), found(False, 2)

    for other in (once, replayed):
        assert torch.equal(other[0], eager[0])
        assert torch.equal(other[1], eager[1])
        for layer in range(model.config.n_layers):
            assert torch.equal(other[2].keys(layer)[:150], eager[2].keys(layer)[:150])
            assert torch.equal(other[2].values(layer)[:150], eager[2].values(layer)[:150])


@pytest.mark.gpu
@on_gpu
def test_graphs_of_all_sizes_share_memory_and_keep_their_results(build: Build) -> None:
    model = build("qwen2", BF16)
    streamed = StreamedModel(model)
    lengths = (200, 40, 100, 1, 200)
    kept = []
    passes = [StreamedPasses(streamed, cache(model, BF16), graphs=graphs) for graphs in (True, True, False)]
    for _ in range(2):
        kept.append([[p.prefill(prompt(n, model), 0, TAPS) for p in passes] for n in lengths])

    for asked in zip(*kept, strict=True):
        want = asked[0][-1]
        for found in (found for turn in asked for found in turn):
            assert torch.equal(found[0], want[0])
            assert found[1] is not None
            assert want[1] is not None
            assert torch.equal(found[1], want[1])
