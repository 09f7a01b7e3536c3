"""Scripted drafts with a model inside: the text stays AR's, and acceptance and hits are just what the script says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiny_models import TinyModels

from specmon.core.drafters.script_words import Coverage
from specmon.core.drafters.scripted import AccuracyPlan, Step

from .harness import Bench

PATTERN = [
    Step(4, covered=True),
    Step(0, covered=True, rank=3),
    Step(2, covered=False),
    Step(4, covered=True, rank=2),
    Step(1, covered=True, rank=2),
    Step(0, covered=False),
    Step(3, covered=True, rank=4),
]
FAN_OUT = (3, 1, 1, 4, 2)
MANY = 40


@pytest.fixture(params=["draft_model", "stranger", "eagle3"])
def inner(request: pytest.FixtureRequest, tiny: TinyModels) -> Path:
    folders: dict[str, Callable[[], Path]] = {
        "draft_model": tiny.draft,
        "stranger": tiny.stranger,
        "eagle3": tiny.eagle3,
    }
    return folders[request.param]()


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_every_pattern_gives_ar_tokens(tiny: TinyModels, bench: Bench, inner: Path, decoder: str) -> None:
    lane = bench.scripted(
        tiny.target(), decoder, PATTERN, tiny.vocab_size, inner=inner, fan_out=FAN_OUT, draft_len=4
    )

    found = [lane.decode(max_new_tokens=MANY), lane.decode("0123456789" * 20, max_new_tokens=MANY)]

    ar = bench.lane(tiny.target())
    assert found[0].tokens == ar.decode(max_new_tokens=MANY).tokens
    assert found[1].tokens == ar.decode("0123456789" * 20, max_new_tokens=MANY).tokens
    rounds = found[0].rounds[:-1]
    steps = [PATTERN[i % len(PATTERN)] for i in range(len(rounds))]
    assert [r.accepted_len for r in rounds] == [step.accepted for step in steps]
    if decoder == "ssd":
        ranks = [
            step.rank if step.covered and step.rank <= FAN_OUT[step.accepted] else None for step in steps
        ]
        assert [None if r.hit is None else r.branches[r.hit].rank for r in rounds] == ranks
        assert {None} < set(ranks)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("fan_out", [(1,), (4,), "auto"])
def test_spelt_with_a_model_it_hits_as_far_as_branches_reach(
    tiny: TinyModels, bench: Bench, fan_out: tuple[int, ...] | str
) -> None:
    draft = f"scripted:0.7:coverage=0.3/0.6/0.9@{tiny.draft()}"
    config = {"branch_budget": 8} if fan_out == "auto" else {"fan_out": fan_out}
    lane = bench.lane(tiny.target(), "ssd", draft=draft, draft_len=4, **config)

    found = lane.decode(max_new_tokens=80)

    assert found.tokens == bench.lane(tiny.target()).decode(max_new_tokens=80).tokens
    plan = AccuracyPlan(0.7, coverage=Coverage((0.3, 0.6, 0.9)))
    for i, round_ in enumerate(found.rounds[:-1]):
        step = plan.step(i, 4)
        assert round_.accepted_len == step.accepted
        assert round_.fan_out is not None
        reached = step.covered and step.rank <= round_.fan_out[step.accepted]
        assert (round_.hit is not None) == reached


def test_lane_says_that_its_draft_is_scripted(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.lane(tiny.target(), "sd", draft=f"scripted:0.78@{tiny.eagle3()}").lane

    label = f"scripted α=0.78 (0.6/0.72/0.8) + {tiny.eagle3().name}"
    described = lane.describe(0, 0)
    assert (described.drafter, described.drafter_kind) == (label, "scripted")
    assert described.draft_weight_bytes
    assert any(label in note and "not measured" in note for note in lane.notes)


@pytest.mark.parametrize("n_rows", [120, 330])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_inner_of_other_rows_is_fed_the_script(
    tiny: TinyModels, bench: Bench, decoder: str, n_rows: int
) -> None:
    target, inner = tiny.with_words(tiny.target()), tiny.with_words(tiny.padded(tiny.draft(), n_rows))
    lane = bench.lane(target, decoder, draft=f"scripted:0.8@{inner}", fan_out=(2,))

    found = lane.decode("t299 t298 t297", raw=True, max_new_tokens=MANY)

    assert found.tokens == bench.lane(target).decode("t299 t298 t297", raw=True, max_new_tokens=MANY).tokens
    assert max(t for r in found.rounds for t in r.draft) < tiny.vocab_size


def test_script_with_a_model_on_a_second_device_gives_ar_tokens(tiny: TinyModels, bench: Bench) -> None:
    draft = f"scripted:0.7@{tiny.draft()}"
    lane = bench.lane(tiny.target(), "ssd", draft=draft, devices="cpu:0,cpu:1", fan_out=(2,))

    found = lane.decode(max_new_tokens=MANY)

    assert found.tokens == bench.lane(tiny.target()).decode(max_new_tokens=MANY).tokens
    plan = AccuracyPlan(0.7)  # whatever was late, no draw is shifted
    assert found.accepted[:-1] == [plan.step(i, 4).accepted for i in range(len(found.rounds) - 1)]
