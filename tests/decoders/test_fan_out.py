"""Branches shared out under a budget, and what is learned from rounds."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny_models import TinyModels

from specmon.core.decoders.fan_out import Given, Learned, share_out

from .harness import Bench

CHANCE = st.floats(0.01, 0.99)
#: Of each outcome its weight, and one hazard for all ranks: each further rank is then less likely.
OUTCOMES = st.lists(st.tuples(CHANCE, CHANCE), min_size=1, max_size=4)


def hit_rate(widths: tuple[int, ...], outcomes: list[tuple[float, float]]) -> float:
    return sum(p * (1 - (1 - h) ** w) for w, (p, h) in zip(widths, outcomes, strict=True))


def shared(budget: int, outcomes: list[tuple[float, float]]) -> tuple[int, ...]:
    return share_out(budget, [(p, lambda rank, h=h: h) for p, h in outcomes])  # type: ignore[misc]


@given(OUTCOMES, st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_no_other_vector_of_the_budget_hits_more(outcomes: list[tuple[float, float]], budget: int) -> None:
    found = shared(budget, outcomes)
    every = (w for w in product(range(budget + 1), repeat=len(outcomes)) if sum(w) == budget)

    assert sum(found) == budget
    assert hit_rate(found, outcomes) == pytest.approx(max(hit_rate(w, outcomes) for w in every))


@given(OUTCOMES, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_a_larger_budget_takes_nothing_away(outcomes: list[tuple[float, float]], budget: int) -> None:
    smaller, larger = shared(budget, outcomes), shared(budget + 1, outcomes)

    assert all(a <= b for a, b in zip(smaller, larger, strict=True))


def test_a_sure_guess_needs_one_branch() -> None:
    assert share_out(5, [(0.5, lambda rank: 1.0), (0.5, lambda rank: 0.3)]) == (1, 4)


def play(fan_out: Learned, chances: list[float], ranks: list[list[float]], rounds: int, seed: int) -> float:
    """Rounds whose outcomes and ranks are drawn; ranks past the last have the rest. Returns: the hit rate."""
    draw, hits = random.Random(seed), 0
    for _ in range(rounds):
        widths = fan_out.widths()
        a = draw.choices(range(len(chances)), chances)[0]
        p = ranks[a]
        rank = draw.choices(range(1, len(p) + 2), [*p, 1 - sum(p)])[0]
        hit = rank <= min(widths[a], len(p))
        hits += hit
        fan_out.saw(a, widths[a], rank if hit else None)
    return hits / rounds


CHANCES = [0.35, 0.2, 0.15, 0.1, 0.2]
RANKS = [[0.5, 0.15, 0.08, 0.05, 0.03], [0.45, 0.15, 0.07], [0.4, 0.1], [0.3, 0.1], [0.8, 0.1, 0.03]]


def best_static(budget: int) -> float:
    """Of the true chances, the best vector's hit rate: further ranks are never likelier here."""
    gains = sorted((c * p for c, row in zip(CHANCES, RANKS, strict=True) for p in row), reverse=True)
    return sum(gains[:budget])


@pytest.mark.parametrize("budget", [5, 8, 16])
def test_what_is_learned_comes_near_the_best_vector(budget: int) -> None:
    fan_out = Learned(4, budget)
    play(fan_out, CHANCES, RANKS, 400, seed=1)

    assert sum(fan_out.widths()) == budget
    assert play(fan_out, CHANCES, RANKS, 4000, seed=2) >= 0.95 * best_static(budget)


def test_an_outcome_that_never_comes_loses_its_branches() -> None:
    fan_out = Learned(2, 6)
    before = fan_out.widths()
    for _ in range(300):
        fan_out.saw(2, fan_out.widths()[2], 1)
    after = fan_out.widths()

    assert before[0] > 1
    assert after[2] == max(after)
    assert sum(after) == 6


def test_what_was_true_long_ago_is_forgotten() -> None:
    fan_out = Learned(1, 2)
    for always in (0, 1):
        for i in range(1500):
            fan_out.saw(always, 2, 1 + i % 2)
        assert fan_out.widths()[always] == 2


def test_given_widths_stay() -> None:
    fan_out = Given((3, 1))
    fan_out.saw(0, 3, None)
    assert fan_out.widths() == (3, 1)


def test_a_conversation_keeps_what_was_learned_and_a_cold_start_does_not(
    tiny: TinyModels, bench: Bench
) -> None:
    lane = bench.lane(tiny.target(), "ssd", draft=str(tiny.draft()), branch_budget=16)
    first, second = lane.decode().turn, lane.decode("the rat ran").turn
    lane.lane.forget()
    cold = lane.decode("the rat ran").turn

    assert [turn.fan_out_budget for turn in (first, second, cold)] == [16, 16, 16]
    assert first.fan_out == cold.fan_out != second.fan_out


def test_a_given_fan_out_has_no_budget(tiny: TinyModels, bench: Bench) -> None:
    turn = bench.lane(tiny.target(), "ssd", draft=str(tiny.draft()), fan_out=(2,)).decode().turn
    assert (turn.fan_out, turn.fan_out_budget, turn.fan_out_words) == ((2,) * 5, None, "2")
