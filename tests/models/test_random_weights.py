"""Random weights make text that varies and hangs on its context: only then do equal tokens say anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from specmon.core.models.build import build_transformer
from specmon.core.models.kv import KvCache
from specmon.core.models.random_weights import SHAPES, RandomTensors, tensor_shapes
from specmon.core.models.recipe import resolve_recipe
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.transformer import Transformer

VOCABULARY = 4096
PROMPT = [(37 * i * i + 11 * i + 5) % VOCABULARY for i in range(100)]
N_TOKENS = 100


def cut_down(shape: str, n_layers: int = 8) -> Transformer:
    """A model of few and narrow layers, of the family, the biases, the norms and the head of `shape`."""
    config = replace(
        SHAPES[shape],
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        n_layers=n_layers,
        n_heads=4,
        n_kv_heads=2,
        head_dim=64,
    )
    file = RandomTensors(shape, config, tensor_shapes(config))
    recipe = resolve_recipe("fp32", "cpu:0", file)
    return build_transformer(file, recipe, "cpu:0", max_positions=256, progress=lambda what, part: None)


class Line:
    """A prompt in its cache, and what greedily follows."""

    def __init__(self, model: Transformer, prompt: list[int]) -> None:
        self.kv = KvCache.of(model.config, n_slots=256, dtype=torch.float32, device="cpu")
        self._passes, self._prompt = ReferencePasses(model, self.kv), prompt
        self._passes.prefill(torch.tensor(prompt[:-1]), 0, ())

    def follow(self, n_tokens: int) -> list[int]:
        tokens = self._prompt[-1:]
        for i in range(n_tokens):
            tokens += self._passes.rows(tokens[-1:], len(self._prompt) - 1 + i, (), logits=False).greedy
        return tokens[1:]


@pytest.mark.parametrize("shape", SHAPES)
def test_text_varies_and_hangs_on_every_earlier_token_and_slot(shape: str) -> None:
    model = cut_down(shape)
    text = Line(model, PROMPT).follow(N_TOKENS)

    assert len(set(text)) > 0.8 * N_TOKENS
    for position in (0, 40, 90):
        other = list(PROMPT)
        other[position] = (other[position] + 777) % VOCABULARY
        assert Line(model, other).follow(40) != text[:40], f"token {position} does not matter"

        stale = Line(model, PROMPT)
        for layer in range(model.config.n_layers):
            for slots in (stale.kv.keys(layer), stale.kv.values(layer)):
                slots[position] = slots[position + 1].clone()
        assert stale.follow(N_TOKENS) != text, f"slot {position} does not matter"


@pytest.mark.parametrize("shape", SHAPES)
def test_residual_grows_like_the_root_of_the_layers(shape: str) -> None:
    model = cut_down(shape, n_layers=32)
    kv = KvCache.of(model.config, n_slots=256, dtype=torch.float32, device="cpu")
    logits, features = ReferencePasses(model, kv).prefill(torch.tensor(PROMPT), 0, range(33))
    assert features is not None
    sizes = root_mean_square(features.view(len(PROMPT), 33, -1)).mean(dim=0)

    roots = torch.arange(33).add(1).sqrt()
    assert bool(((sizes > 0.7 * roots) & (sizes < 1.3 * roots)).all()), sizes
    assert 0.5 < float(root_mean_square(logits)) < 2


def root_mean_square(values: Tensor) -> Tensor:
    return values.pow(2).mean(dim=-1).sqrt()
