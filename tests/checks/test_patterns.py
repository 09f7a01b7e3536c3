"""The suite puts every outcome of a round to each decoder, whatever K and fan-out are."""

from __future__ import annotations

import pytest

from specmon.core.checks.patterns import Lane, suite
from specmon.core.decoders.check import check_config
from specmon.core.engine.messages import LaneConfig


def forced(lanes: list[Lane], decoder: str) -> set[tuple[int, bool]]:
    """(accepted_len, covered) of all steps at the suite's own K."""
    return {
        (step.accepted, step.covered)
        for lane in lanes
        if lane.scripted and lane.config.decoder == decoder
        for pattern in lane.patterns
        for ask in pattern.asks
        for step in ask.steps
    }


@pytest.mark.parametrize("k", [1, 4, 15])
def test_every_accepted_len_is_forced_with_hit_and_miss(k: int) -> None:
    lanes = suite(LaneConfig(draft_len=k), "long")

    assert {n for n, _ in forced(lanes, "sd")} >= set(range(k + 1))
    assert forced(lanes, "ssd") >= {(n, covered) for n in range(k + 1) for covered in (True, False)}


@pytest.mark.parametrize("k", [1, 4, 15])
@pytest.mark.parametrize("fan_out", [{}, {"branch_budget": 8}, {"fan_out": "all"}])
def test_every_lane_of_the_suite_can_work(k: int, fan_out: dict[str, object]) -> None:
    if fan_out.get("fan_out") == "all":
        fan_out = {"fan_out": (2,) * (k + 1)}
    lanes = suite(LaneConfig(draft_len=k, **fan_out), "long")  # type: ignore[arg-type]

    for lane in lanes:
        check_config(lane.config)
        longest = max((ask.draft_len or 0) for pattern in lane.patterns for ask in pattern.asks)
        assert longest <= lane.config.draft_len
    assert all(lane.scripted == bool(ask.steps) for lane in lanes for p in lane.patterns for ask in p.asks)


def test_own_drafter_decodes_with_the_fan_out_asked_for_and_another() -> None:
    given, learned = (
        [lane.config.fan_out_words for lane in suite(config, "long") if not lane.scripted]
        for config in (LaneConfig(fan_out=(2,)), LaneConfig(branch_budget=8))
    )

    assert given == ["2", "2", "auto:16"]
    assert learned == ["auto:8", "auto:8", "1"]
