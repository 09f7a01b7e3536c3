"""Trees drafted in one piece: each node is fed with the bits of its own chain, and its level is the reference's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.gpus import needs_gpu
from torch import Tensor

from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.likely import LikelyTokens
from specmon.core.models.random_weights import PREFIX, RandomFile
from specmon.core.models.recipe import Recipe, resolve_recipe
from specmon.core.models.streamed import StreamedModel, StreamedPasses
from specmon.core.models.transformer import Transformer
from specmon.kernels.attention.split import TILED_FROM
from specmon.kernels.tree.reference import Level, grow

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu:0"
FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)


def opened(streamed: StreamedModel, dtype: torch.dtype, base: int, n_slots: int) -> StreamedPasses:
    """On a cache with a context of `base` positions, NaN after it."""
    config = streamed.reference.config
    kv = KvCache.of(config, n_slots=n_slots, dtype=dtype, device=streamed.reference.device)
    torch.manual_seed(0)
    for layer in range(config.n_layers):
        kv.keys(layer).normal_()
        kv.values(layer).normal_()
    kv.poison(base)
    return StreamedPasses(streamed, kv)


def likely_after(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    found = LikelyTokens(logits_RV.shape[1], logits_RV.device)
    found.rows[: len(logits_RV)] = logits_RV
    found.start_at([], count)
    found.enqueue(0, len(logits_RV))
    if DEVICE != "cpu:0":
        torch.cuda.synchronize()
    tokens, probs = found.here(len(logits_RV), count)
    return torch.tensor(tokens), torch.tensor(probs)


def by_main_lines(
    passes: StreamedPasses, tokens: list[int], base: int, depth: int, width: int
) -> list[Level]:
    """The same tree, each node fed at the end of its own chain."""
    levels: list[Level] = []
    lines, chances = [tokens], [1.0]
    for _ in range(depth):
        logits = []
        for line in lines:
            seen = passes.rows(line, base, (), logits=True).logits_RV
            assert seen is not None
            assert bool(torch.isfinite(seen).all())
            logits.append(seen[-1].clone())
        level = grow(*likely_after(torch.stack(logits), width), chances, width)
        lines = [[*lines[row], token] for row, token in zip(level.parents, level.tokens, strict=True)]
        levels, chances = [*levels, level], level.chances
    return levels


def assert_nodes_are_main_lines(
    model: Transformer, dtype: torch.dtype, base: int, n_rows: int, depth: int, width: int
) -> None:
    streamed, n_slots = StreamedModel(model), base + n_rows + depth * width
    whole, alone = (opened(streamed, dtype, base, n_slots) for _ in range(2))
    for shift in (0, 1, 2):  # captured, and replayed with other tokens and another cursor
        tokens = [(11 * i + 5 * shift + 3) % 90 for i in range(n_rows - shift % n_rows)]
        start = base - shift
        tree = whole.tree(tokens, start, depth, width)
        assert tree.levels == by_main_lines(alone, tokens, start, depth, width)
        assert {len(level.tokens) for level in tree.levels} == {width}


@pytest.mark.parametrize(
    ("family", "base", "n_rows", "depth", "width"),
    [("llama", 2, 1, 3, 3), ("qwen2", 252, 2, 3, 2), ("qwen3", 254, 3, 2, 4), ("llama", 300, 1, 1, 16)],
)
def test_a_node_is_fed_as_at_the_end_of_its_own_chain(
    tiny: Any, family: str, base: int, n_rows: int, depth: int, width: int
) -> None:
    file = HfFolder(tiny.two_layers(family))
    model = build_transformer(file, FP32, DEVICE, max_positions=700, progress=lambda what, part: None)
    assert_nodes_are_main_lines(model, torch.float32, base, n_rows, depth, width)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("recipe", ["bf16", "fp8"])
@pytest.mark.parametrize("shape", ["smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b"])
@pytest.mark.parametrize(
    ("base", "n_rows", "depth", "width"), [(40, 5, 4, 5), (253, 1, 4, 5), (TILED_FROM - 3, 3, 7, 4)]
)
def test_a_node_on_a_gpu_is_fed_as_at_the_end_of_its_own_chain(
    shape: str, recipe: str, base: int, n_rows: int, depth: int, width: int
) -> None:
    file = RandomFile(PREFIX + shape)
    with torch.inference_mode():
        model = build_transformer(
            file,
            resolve_recipe(recipe, DEVICE, file),
            DEVICE,
            max_positions=base + 100,
            progress=lambda what, part: None,
        )
        assert_nodes_are_main_lines(model, torch.bfloat16, base, n_rows, depth, width)
