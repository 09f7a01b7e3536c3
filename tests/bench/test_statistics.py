"""Medians and their intervals."""

from __future__ import annotations

import random

import pytest

from specmon.core.bench.statistics import RESAMPLES, Estimate, estimate


def interval(found: Estimate | None) -> tuple[float, float]:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_values_that_are_all_equal_have_no_spread() -> None:
    found = estimate({"a": [2.0, 2.0], "b": [2.0]})
    assert found is not None
    assert (found.median, found.low, found.high, found.n) == (2.0, 2.0, 2.0, 3)


def test_one_request_tells_of_no_spread() -> None:
    found = estimate({"a": [2.0]})
    assert found is not None
    assert (found.median, found.low, found.high, found.n) == (2.0, None, None, 1)


def test_nothing_measured_is_no_estimate() -> None:
    assert estimate({}) is None
    assert estimate({"a": []}) is None


def test_interval_holds_the_median_and_no_value_outside_the_data() -> None:
    values = [1.0, 1.1, 1.2, 1.3, 1.9]
    found = estimate({str(i): [value] for i, value in enumerate(values)})
    assert found is not None
    assert found.median == 1.2
    low, high = interval(found)
    assert min(values) <= low < 1.2 < high <= max(values)


def test_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    draw = random.Random(3)
    data = {str(i): [draw.gauss(1.0, 0.2) for _ in range(3)] for i in range(8)}
    first = estimate(data, seed=1)
    assert estimate(data, seed=1) == first
    assert any(estimate(data, seed=seed) != first for seed in range(2, 6))


def test_prompts_are_resampled_not_requests_alone() -> None:
    """Two prompts that never agree: repeating the requests must not make the interval narrow."""
    apart = estimate({"slow": [1.0] * 50, "fast": [2.0] * 50})
    mixed = estimate({str(i): [1.0, 2.0] for i in range(50)})
    assert interval(apart) == (1.0, 2.0)
    low, high = interval(mixed)
    assert high - low <= 1.0


def test_enough_resamples_for_a_tail_of_two_and_a_half_per_cent() -> None:
    assert RESAMPLES >= 2_000


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    draw, covered = random.Random(7), 0
    for trial in range(60):
        data = {str(i): [draw.gauss(1.0, 0.1) for _ in range(3)] for i in range(8)}
        low, high = interval(estimate(data, resamples=400, seed=trial))
        covered += low <= 1.0 <= high
    assert covered / 60 == pytest.approx(0.95, abs=0.1)
