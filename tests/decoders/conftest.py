"""Fixtures of the agreement suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core import paths
from specmon.core.decoders.target import Target
from specmon.core.models.fetch import is_fetched

from .harness import Bench


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def _pooled(tiny: TinyModels) -> Bench:
    return Bench(tiny.root)


@pytest.fixture
def bench(_pooled: Bench) -> Iterator[Bench]:
    """Lanes on tiny models; targets stay loaded between tests."""
    yield _pooled
    _pooled.close()


@pytest.fixture(scope="session")
def _embedded_pool() -> Bench:
    if not is_fetched(paths.cache_dir()):
        pytest.skip("the embedded model is not fetched (specmon models fetch smollm2)")
    return Bench(None)


@pytest.fixture
def embedded_bench(_embedded_pool: Bench) -> Iterator[Bench]:
    """Lanes on the embedded model."""
    yield _embedded_pool
    _embedded_pool.close()


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every target pass, each KV slot that is not valid becomes NaN."""
    verify, prefill = Target.verify, Target.prefill

    def poisoned_verify(self, tokens, chooser, taps):  # type: ignore[no-untyped-def]
        self.kv.poison(len(self.held))
        return verify(self, tokens, chooser, taps)

    def poisoned_prefill(self, tokens, start, chooser, taps):  # type: ignore[no-untyped-def]
        self.kv.poison(start)
        return prefill(self, tokens, start, chooser, taps)

    monkeypatch.setattr(Target, "verify", poisoned_verify)
    monkeypatch.setattr(Target, "prefill", poisoned_prefill)
