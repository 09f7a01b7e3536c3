"""The order of a paired measurement, and draft lengths tried one by one."""

from __future__ import annotations

from collections import Counter

import pytest

from specmon.core.bench.choose_k import TunedK, best_draft_len, try_draft_lens
from specmon.core.bench.pairs import Measured, Plan, measure
from specmon.core.engine.messages import LaneConfig
from specmon.core.metrics.turn import TurnMetrics

from .turns import FakeLanes, make_turn, prompt

PROMPTS = [prompt(name) for name in ("one", "two", "three")]


def plan(n_lanes: int = 2, repeats: int = 2) -> Plan:
    return Plan(n_lanes=n_lanes, prompts=PROMPTS, repeats=repeats, max_new_tokens=8)


def run(n_lanes: int = 2, repeats: int = 2) -> tuple[list[Measured], FakeLanes]:
    lanes = FakeLanes(lambda lane, text: make_turn())
    return list(measure(plan(n_lanes, repeats), lanes)), lanes


@pytest.mark.parametrize("n_lanes", [2, 3, 4])
def test_every_lane_decodes_every_prompt_as_often_as_asked(n_lanes: int) -> None:
    measured, _ = run(n_lanes)
    assert len(measured) == plan(n_lanes).n_requests == n_lanes * 3 * 2
    assert set(Counter((m.lane, m.prompt) for m in measured).values()) == {2}


@pytest.mark.parametrize("n_lanes", [2, 3])
def test_who_is_first_changes_from_prompt_to_prompt_and_from_repeat_to_repeat(n_lanes: int) -> None:
    whole = plan(n_lanes)
    for repeat in range(3):
        for number in range(3):
            first = whole.order(repeat, number)[0]
            assert sorted(whole.order(repeat, number)) == list(range(n_lanes))
            assert first != whole.order(repeat + 1, number)[0]
            assert first != whole.order(repeat, number + 1)[0]


def test_no_lane_always_follows_the_same_other_one() -> None:
    whole = plan(4)
    orders = [whole.order(0, number) for number in range(8)]
    before = {(order[i - 1], order[i]) for order in orders for i in range(1, 4)}
    assert all(len({first for first, lane in before if lane == other}) == 2 for other in range(4))


def test_lanes_decode_one_prompt_right_after_each_other_each_from_empty_caches() -> None:
    _, lanes = run()
    assert lanes.asked[:2] == [(0, "one"), (1, "one")], "every lane warms up, uncounted"
    assert lanes.asked[2:10] == [
        *((0, "."), (0, "one"), (1, "."), (1, "one")),
        *((1, "."), (1, "two"), (0, "."), (0, "two")),
    ]


def test_what_was_measured_before_an_interruption_is_kept() -> None:
    def turns(lane: int, text: str) -> TurnMetrics:
        if len(lanes.asked) > 9:
            raise KeyboardInterrupt
        return make_turn()

    lanes = FakeLanes(turns)
    kept: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        kept.extend(measure(plan(), lanes))
    assert [(m.lane, m.prompt) for m in kept] == [(0, "one"), (1, "one"), (1, "two")]


def test_each_draft_len_is_loaded_warmed_up_and_timed_on_all_tuning_prompts() -> None:
    loaded: list[int] = []
    speed = {1: 3.0, 2: 2.0, 4: 2.5}
    lanes = FakeLanes(lambda lane, text: make_turn(round_ms=speed[lanes.draft_lens[-1] or 0]))
    tried = list(
        try_draft_lens(
            1,
            LaneConfig(decoder="sd"),
            [1, 2, 4],
            PROMPTS,
            8,
            load=lambda lane, config: loaded.append(config.draft_len),
            decode=lanes,
        )
    )
    assert loaded == [4], "once, for the longest"
    assert [(k.draft_len, k.ms_per_token) for k in tried if k] == [(1, 3.0), (2, 2.0), (4, 2.5)]
    assert {lane for lane, _ in lanes.asked} == {1}
    assert Counter(text for _, text in lanes.asked) == {".": 9, "one": 6, "two": 3, "three": 3}
    assert best_draft_len([k for k in tried if k]) == 2


def test_of_two_draft_lens_equally_fast_the_smaller_is_chosen() -> None:
    tried = [TunedK(draft_len=k, ms_per_token=1.0, tokens_per_round=None) for k in (3, 2)]
    assert best_draft_len(tried) == 2


def test_turns_of_one_token_say_nothing_about_a_draft_len() -> None:
    tried = list(
        try_draft_lens(
            0,
            LaneConfig(decoder="sd"),
            [2],
            PROMPTS,
            1,
            load=lambda lane, config: None,
            decode=FakeLanes(lambda lane, text: make_turn((1,))),
        )
    )
    assert tried == [None]
