"""Fixtures of the model tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specmon.core import paths
from specmon.core.models.fetch import embedded_model_path, is_fetched
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk, Rows
from specmon.core.models.pool import LoadedModel, ModelPool
from specmon.core.models.prefill import chunk_plan
from specmon.core.models.transformer import Transformer


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


@pytest.fixture
def load() -> Callable[..., LoadedModel]:
    """load(folder or file, recipe): the model, read anew."""

    def load(model: Path | str, recipe: str = "fp32") -> LoadedModel:
        return ModelPool().target(str(model), recipe, "cpu:0", lambda what, fraction: None)

    return load


@pytest.fixture
def own_logits() -> Callable[[Transformer, list[int], int, torch.dtype], Tensor]:
    """own_logits(model, ids, prefilled, kv dtype): logits of every position, the first `prefilled` in chunks.

    The rest is decoded, in passes of 1, 2, 3, 1, … rows.
    """

    def run(model: Transformer, ids: list[int], prefilled: int, dtype: torch.dtype) -> Tensor:
        config = model.config
        kv = KvCache.of(config, n_slots=len(ids), dtype=dtype, device="cpu")
        passes = [Chunk(*part) for part in chunk_plan(0, prefilled)]
        at = prefilled
        while at < len(ids):
            passes.append(Rows(at, min(len(ids) - at, 1 + len(passes) % 3)))  # type: ignore[arg-type]
            at += passes[-1].n_rows
        tokens = torch.tensor(ids)
        hidden = [model.hidden(tokens[p.positions], kv, p)[0] for p in passes]
        return model.logits(torch.cat(hidden)).float()

    return run


@pytest.fixture(scope="session")
def embedded_path() -> Path:
    """The embedded model's file."""
    if not is_fetched(paths.cache_dir()):
        pytest.skip("the embedded model is not fetched (specmon models fetch smollm2)")
    return embedded_model_path(paths.cache_dir())
