"""What is drawn: frequencies, the filters, and the kernel against its reference, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from specmon.kernels.sample.filters import floors
from specmon.kernels.sample.launch import Sampler
from specmon.kernels.sample.reference import draw_rows, gumbel, inverse_temperature, token_words
from specmon.kernels.stream.scaled import ROWS

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DRAWS = 100_000
LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -3.0, 0.5])
CHI_SQUARE_6_DOF = 22.5  # exceeded once in a thousand
NEAR = 1e-4  # far above the rounding of a score, far below a typical margin
FILTERS = [(0, 1.0), (3, 1.0), (0, 0.8), (40, 0.6)]


def sampled(
    logits: Tensor,
    positions: Sequence[int],
    seed: int,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Tokens and margins from the kernel."""
    sampler = Sampler(logits.shape[1], DEVICE)
    sampler.begin(seed, temperature, top_k=top_k, top_p=top_p)
    tokens, margins = torch.full((ROWS,), -5, device=DEVICE), torch.zeros(ROWS, device=DEVICE)
    at = torch.tensor(positions, dtype=torch.int32, device=DEVICE)
    sampler(logits.to(DEVICE), at, tokens, margins, len(positions))
    assert bool((tokens[len(positions) :] == -5).all())
    return tokens[: len(positions)].cpu(), margins[: len(positions)].cpu()


def random_logits(rows: int, n_tokens: int) -> Tensor:
    return 3 * torch.randn(rows, n_tokens)


@pytest.mark.parametrize(("temperature", "seed"), [(0.5, 0), (1.0, -7), (2.0, 1)])
def test_frequencies_are_those_of_the_softmax(temperature: float, seed: int) -> None:
    drawn = draw_rows(LOGITS.expand(DRAWS, -1), range(DRAWS), seed, temperature)
    expected = DRAWS * (LOGITS.double() / temperature).softmax(0)
    counts = torch.bincount(drawn, minlength=len(LOGITS))

    assert float(((counts - expected) ** 2 / expected).sum()) < CHI_SQUARE_6_DOF


def test_draws_at_neighbouring_positions_and_seeds_are_independent() -> None:
    """Pairs of draws fall on the 9 pairs of 3 tokens as their product says."""
    logits = torch.tensor([0.4, 0.0, -0.3])
    share = logits.double().softmax(0)
    first, second = (
        (gumbel(token_words(seed, torch.arange(DRAWS), 3)) + logits).argmax(1) for seed in (4, 5)
    )
    for other in (first.roll(1), second):
        counts = torch.bincount(3 * first + other, minlength=9)
        expected = DRAWS * torch.outer(share, share).flatten()
        assert float(((counts - expected) ** 2 / expected).sum()) < 26.1  # 8 degrees, once in a thousand


@pytest.mark.parametrize(("top_k", "top_p"), FILTERS)
@pytest.mark.parametrize(("rows", "n_tokens"), [(1, 1024), (5, 2500), (16, 1030)])
def test_kernel_draws_what_its_reference_draws(rows: int, n_tokens: int, top_k: int, top_p: float) -> None:
    logits, positions = random_logits(rows, n_tokens), [7 * i + 3 for i in range(rows)]
    tokens, margins = sampled(logits, positions, 11, 0.8, top_k, top_p)
    expected = draw_rows(logits, positions, 11, 0.8, top_k=top_k, top_p=top_p)
    decided = margins > NEAR

    assert torch.equal(tokens[decided], expected[decided])
    assert int(decided.sum()) >= rows - 1


@pytest.mark.parametrize(("top_k", "top_p"), FILTERS)
def test_a_row_is_drawn_alike_alone_and_in_company(top_k: int, top_p: float) -> None:
    logits, positions = random_logits(16, 1500), list(range(100, 116))
    together, margins = sampled(logits, positions, 3, 1.3, top_k, top_p)
    for i in (0, 7, 15):
        alone, margin = sampled(logits[i : i + 1].clone(), positions[i : i + 1], 3, 1.3, top_k, top_p)
        assert (alone.tolist(), margin.tolist()) == (
            together[i : i + 1].tolist(),
            margins[i : i + 1].tolist(),
        )


def test_rows_may_lie_apart_in_memory() -> None:
    wide = random_logits(4, 1201).to(DEVICE)
    wide[:, 1100:] = torch.nan
    positions = [5, 6, 7, 8]

    apart, _ = sampled(wide[:, :1100], positions, 2, 1.0)
    assert torch.equal(apart, sampled(wide[:, :1100].contiguous(), positions, 2, 1.0)[0])


def test_equal_scores_go_to_the_lower_token_and_a_token_alone_wins_by_inf() -> None:
    one = torch.full((1, 1100), -torch.inf)
    one[0, 1077] = -3.0
    tokens, margins = sampled(one, [9], 0, 1.0)
    assert tokens.tolist() == [1077]
    assert margins.tolist() == [torch.inf]
    assert sampled(random_logits(1, 1100), [9], 0, 1.0, top_k=1)[1].tolist() == [torch.inf]
    assert draw_rows(one, [9], 0, 1.0).tolist() == [1077]


@pytest.mark.parametrize("temperature", [1e-40, 1e-3])
def test_low_temperatures_take_the_best_token(temperature: float) -> None:
    logits = random_logits(3, 700)
    logits[[0, 1, 2], [3, 699, 0]] = 40.0

    assert sampled(logits, [1, 2, 3], 0, temperature)[0].tolist() == [3, 699, 0]
    assert draw_rows(logits, [1, 2, 3], 0, temperature).tolist() == [3, 699, 0]


def test_temperature_zero_draws_nothing() -> None:
    with pytest.raises(ValueError, match="temperature 0"):
        inverse_temperature(0.0)
    with pytest.raises(ValueError):
        Sampler(4, DEVICE).begin(0, 0.0)


def kept(logits: Tensor, top_k: int, top_p: float, temperature: float = 1.0) -> list[list[int]]:
    """The tokens of each row that may be drawn."""
    lowest = floors(logits, 1 / temperature, top_k, top_p)
    return [torch.nonzero(row >= floor)[:, 0].tolist() for row, floor in zip(logits, lowest, strict=True)]


def test_top_p_is_measured_among_the_top_k_at_the_temperature() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()[None]
    assert kept(logits, 0, 1.0) == [[0, 1, 2, 3]]
    assert kept(logits, 0, 0.8) == [[0, 1]] or kept(logits, 0, 0.8) == [[0, 1, 2]]  # 0.8 to the last bit
    assert kept(logits, 0, 0.81) == [[0, 1, 2]]
    assert kept(logits, 2, 1.0) == [[0, 1]]
    assert kept(logits, 2, 0.62) == [[0]]  # 0.5 / 0.8
    assert kept(logits, 0, 0.7, temperature=0.5) == [[0, 1]]
    assert kept(logits, 0, 0.65, temperature=0.5) == [[0]]  # 0.25 / 0.365
    assert kept(logits, 9, 1e-12) == [[0]]


def test_ties_with_the_smallest_kept_logit_stay() -> None:
    logits = torch.tensor([[1.0, 0.0, 2.0, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert kept(logits, 3, 1.0) == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_floors_of_a_row_stand_alone() -> None:
    logits = random_logits(16, 777).to(DEVICE)
    for top_k, top_p in FILTERS:
        together = floors(logits, 1.25, top_k, top_p)
        for i in (0, 9, 15):
            assert torch.equal(floors(logits[i : i + 1], 1.25, top_k, top_p), together[i : i + 1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnAGpu:
    """A whole vocabulary, and graphs."""

    @pytest.mark.parametrize(("top_k", "top_p"), FILTERS)
    @pytest.mark.parametrize("n_tokens", [49_152, 152_064, 152_063])
    def test_a_graph_draws_what_the_reference_draws(self, n_tokens: int, top_k: int, top_p: float) -> None:
        logits = torch.zeros(ROWS, n_tokens, device=DEVICE)
        positions = torch.zeros(ROWS, dtype=torch.int32, device=DEVICE)
        tokens = torch.zeros(ROWS, dtype=torch.int64, device=DEVICE)
        margins, sampler = torch.zeros(ROWS, device=DEVICE), Sampler(n_tokens, DEVICE)
        sampler.begin(0, 1.0, top_k=top_k, top_p=top_p)
        sampler(logits, positions, tokens, margins, ROWS)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            sampler(logits, positions, tokens, margins, ROWS)
        for seed, temperature in ((5, 0.7), (-6, 1.5)):
            rows, at = random_logits(ROWS, n_tokens), [seed + 50 + i for i in range(ROWS)]
            logits.copy_(rows)
            positions.copy_(torch.tensor(at, dtype=torch.int32))
            sampler.begin(seed, temperature, top_k=top_k, top_p=top_p)
            graph.replay()
            expected = draw_rows(rows, at, seed, temperature, top_k=top_k, top_p=top_p)
            decided = margins.cpu() > NEAR
            assert int(decided.sum()) >= ROWS - 2
            assert torch.equal(tokens.cpu()[decided], expected[decided])

            alone = sampled(rows[3:4], at[3:4], seed, temperature, top_k, top_p)
            assert (alone[0].item(), alone[1].item()) == (tokens[3].item(), margins[3].item())
