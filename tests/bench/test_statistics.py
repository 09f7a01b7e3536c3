"""Medians and their intervals."""

from __future__ import annotations

import random

import pytest

from specmon.core.bench.statistics import RESAMPLES, estimate


def test_values_that_are_all_equal_have_no_spread() -> None:
    found = estimate({"a": [2.0, 2.0], "b": [2.0]})
    assert found is not None
    assert (found.median, found.low, found.high, found.n, found.spread) == (2.0, 2.0, 2.0, 3, 0.0)


def test_nothing_measured_is_no_estimate() -> None:
    assert estimate({}) is None
    assert estimate({"a": []}) is None


def test_interval_holds_the_median_and_no_value_outside_the_data() -> None:
    values = [1.0, 1.1, 1.2, 1.3, 1.9]
    found = estimate({str(i): [value] for i, value in enumerate(values)})
    assert found is not None
    assert found.median == 1.2
    assert min(values) <= found.low < 1.2 < found.high <= max(values)


def test_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    draw = random.Random(3)
    data = {str(i): [draw.gauss(1.0, 0.2) for _ in range(3)] for i in range(8)}
    first = estimate(data, seed=1)
    assert estimate(data, seed=1) == first
    assert estimate(data, seed=2) != first


def test_prompts_are_resampled_not_requests_alone() -> None:
    """Two prompts that never agree: repeating the requests must not make the interval narrow."""
    apart = estimate({"slow": [1.0] * 50, "fast": [2.0] * 50})
    mixed = estimate({str(i): [1.0, 2.0] for i in range(50)})
    assert apart is not None
    assert mixed is not None
    assert (apart.low, apart.high) == (1.0, 2.0)
    assert mixed.high - mixed.low <= apart.high - apart.low


def test_enough_resamples_for_a_tail_of_two_and_a_half_per_cent() -> None:
    assert RESAMPLES >= 2_000


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    draw, covered = random.Random(7), 0
    for trial in range(60):
        data = {str(i): [draw.gauss(1.0, 0.1) for _ in range(3)] for i in range(8)}
        found = estimate(data, resamples=400, seed=trial)
        assert found is not None
        covered += found.low <= 1.0 <= found.high
    assert covered / 60 == pytest.approx(0.95, abs=0.1)
