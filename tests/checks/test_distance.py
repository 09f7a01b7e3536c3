"""Distances between logits, and the position at which they jump."""

from __future__ import annotations

import pytest
import torch

from specmon.core.checks.distance import Along, Distance, along, distances


def test_error_is_in_standard_deviations_and_total_variation_in_probability() -> None:
    expected = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    found = torch.tensor([[0.0, 0.0], [0.0, 2.0]])

    same, moved = distances(7, found + torch.tensor([[0.0], [0.0]]), expected + torch.tensor([[1.0], [0.0]]))

    assert (same.position, moved.position) == (7, 8)
    assert (same.total_variation, same.flipped) == (0.0, False)
    assert moved.flipped
    assert moved.error == pytest.approx(2 / 2**0.5)
    assert moved.total_variation == pytest.approx(2 * torch.sigmoid(torch.tensor(2.0)).item() - 1)


def distance_at(position: int, total_variation: float) -> Distance:
    return Distance(position=position, error=total_variation, total_variation=total_variation, flipped=False)


def test_jump_is_the_first_position_beyond_the_bound() -> None:
    found = [distance_at(i, tv) for i, tv in enumerate((0.1, 0.1, 0.3, 0.1, 0.9))]

    assert along(found, 0.2) == Along(
        n_positions=5,
        max_error=0.9,
        mean_total_variation=pytest.approx(0.3),
        max_total_variation=0.9,
        worst_position=4,
        top1_flips=0,
        jump=2,
    )
    assert along(found, 0.95).jump is None


def test_a_distance_that_is_no_number_is_beyond_every_bound() -> None:
    found = along([distance_at(0, 0.1), distance_at(1, float("nan"))], 1.0)

    assert (found.jump, found.worst_position) == (1, 1)
