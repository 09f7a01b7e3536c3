"""Chain drafters in fp32 on tiny models, and features that depend on the whole text before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from tests.tiny_models import HIDDEN, TinyModels
from torch import Tensor

from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.drafters.eagle3 import Eagle3Stepper
from specmon.core.drafters.eagle3_file import load_eagle3
from specmon.core.models.build import Builder, build_transformer
from specmon.core.models.config import ModelConfig
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.recipe import Recipe
from specmon.core.models.reference_passes import ReferencePasses

FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
N_SLOTS = 400


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


def cache(config: ModelConfig) -> KvCache:
    return KvCache.of(config, n_slots=N_SLOTS, dtype=torch.float32, device="cpu")


@pytest.fixture(scope="session")
def new_draft_model(tiny: TinyModels) -> Callable[[], ChainDrafter]:
    """Makes draft model drafters with a KV cache each."""
    file = HfFolder(tiny.draft())
    model = build_transformer(
        file, FP32, "cpu:0", max_positions=N_SLOTS, progress=lambda what, fraction: None
    )

    def build() -> ChainDrafter:
        kv = cache(file.config)
        return ChainDrafter(DraftModelStepper(model, kv, ReferencePasses(model, kv), "tiny"))

    return build


@pytest.fixture(scope="session")
def new_eagle3(tiny: TinyModels) -> Callable[[], ChainDrafter]:
    """Makes EAGLE-3 drafters with a KV cache each."""
    target, file = HfFolder(tiny.target()), HfFolder(tiny.eagle3())
    embedding = target_embedding(tiny.target())
    head = load_eagle3(file, target.config, embedding, FP32, "cpu:0", max_positions=N_SLOTS)
    return lambda: ChainDrafter(Eagle3Stepper(head, cache(file.config), "tiny"))


def target_embedding(folder: Path) -> Tensor:
    file = HfFolder(folder)
    shape = (file.config.vocab_size, HIDDEN)
    return Builder(file, FP32, "cpu:0").dense("model.embed_tokens.weight", shape)


@pytest.fixture(scope="session")
def features_of() -> Callable[[Sequence[int], int, int], Tensor]:
    """features_of(text, first, end): made-up features of positions first … end-1, functions of the text up to each."""

    def features(text: Sequence[int], first: int, end: int) -> Tensor:
        rows = []
        for position in range(first, end):
            seed = hash(tuple(text[: position + 1])) & 0xFFFF_FFFF
            rows.append(torch.randn(3 * HIDDEN, generator=torch.Generator().manual_seed(seed)))
        return torch.stack(rows) if rows else torch.empty(0, 3 * HIDDEN)

    return features
