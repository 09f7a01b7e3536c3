"""Sampling draws from the softmax it says it draws from, and depends on nothing but seed and position."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.core.decoders.choose import Chooser
from specmon.core.events import Sampling

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -3.0])
DRAWS = 2000
CHI_SQUARE_5_DOF = 20.5  # exceeded once in a thousand


def draw(sampling: Sampling, seed: int = 0, logits: Tensor = LOGITS) -> Tensor:
    """Counts of each token over DRAWS positions."""
    chosen = Chooser(sampling, seed).choose(logits.expand(DRAWS, -1), range(DRAWS))
    return torch.bincount(torch.tensor(chosen), minlength=len(logits)).double()


def chi_square(counts: Tensor, probabilities: Tensor) -> float:
    expected = probabilities.double() * counts.sum()
    seen = expected > 0
    assert counts[~seen].sum() == 0
    return float(((counts - expected) ** 2 / expected)[seen].sum())


@pytest.mark.parametrize("temperature", [0.5, 0.8, 2.0])
@pytest.mark.parametrize("seed", [0, 1, -7])
def test_draws_follow_the_softmax(temperature: float, seed: int) -> None:
    counts = draw(Sampling(temperature=temperature), seed)

    assert chi_square(counts, (LOGITS / temperature).softmax(dim=-1)) < CHI_SQUARE_5_DOF


def test_top_k_draws_from_the_best_alone() -> None:
    counts = draw(Sampling(temperature=1.0, top_k=3))

    expected = torch.zeros(6)
    expected[:3] = LOGITS[:3].softmax(dim=-1)
    assert chi_square(counts, expected) < CHI_SQUARE_5_DOF


@pytest.mark.parametrize(("top_p", "kept"), [(0.5, 1), (0.6, 2), (0.9, 4), (1e-9, 1)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p: float, kept: int) -> None:
    probabilities = LOGITS.softmax(dim=-1)
    assert probabilities[: kept - 1].sum() < top_p <= probabilities[:kept].sum()

    counts = draw(Sampling(temperature=1.0, top_p=top_p))

    expected = torch.zeros(6)
    expected[:kept] = LOGITS[:kept].softmax(dim=-1)
    assert chi_square(counts, expected) < CHI_SQUARE_5_DOF


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=0.8), Sampling(temperature=0.8, top_k=4, top_p=0.95)]
)
def test_draws_on_cuda_follow_the_softmax(sampling: Sampling) -> None:
    many = 100_000
    chosen = Chooser(sampling, 2).choose(LOGITS.cuda().expand(many, -1), range(many))
    counts = torch.bincount(torch.tensor(chosen), minlength=6).double()

    expected = (LOGITS / 0.8).softmax(dim=-1)
    kept = 4 if sampling.top_k else 6  # the best three of four have 0.94 of their probability
    expected[kept:] = 0
    assert chi_square(counts, expected / expected.sum()) < CHI_SQUARE_5_DOF
    assert Chooser(sampling, 2).choose(LOGITS.expand(200, -1), range(200)) == chosen[:200]


def test_zero_temperature_takes_the_best() -> None:
    assert draw(Sampling(temperature=0.0, top_k=2, top_p=0.3))[0] == DRAWS


def test_draw_ignores_the_rows_beside_it() -> None:
    rows = torch.randn(8, 50, generator=torch.Generator().manual_seed(0))
    chooser = Chooser(Sampling(temperature=0.9, top_p=0.8), 3)

    together = chooser.choose(rows, range(100, 108))

    alone = [chooser.choose(rows[i : i + 1], [100 + i])[0] for i in range(8)]
    assert together == alone
    assert together != chooser.choose(rows, range(8))
