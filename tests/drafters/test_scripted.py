"""The scripted drafter proposes just what its plan says."""

from __future__ import annotations

import pytest

from specmon.core.drafters.base import Outcome
from specmon.core.drafters.scripted import AccuracyPlan, PatternPlan, ScriptedDrafter, Step

TRUTH = list(range(10, 40))


def scripted(*steps: Step) -> ScriptedDrafter:
    drafter = ScriptedDrafter(PatternPlan(steps), 300, label="scripted")
    drafter.begin(TRUTH[:5], None, 0)
    drafter.script(TRUTH)
    return drafter


@pytest.mark.parametrize("accepted", range(5))
def test_draft_is_right_up_to_its_step(accepted: int) -> None:
    found = scripted(Step(accepted, covered=False)).draft(4).tokens

    right = [token == true for token, true in zip(found, TRUTH[5:9], strict=True)]
    assert right == [i != accepted for i in range(4)]


@pytest.mark.parametrize("covered", [True, False])
@pytest.mark.parametrize("width", [1, 3])
def test_true_outcome_has_a_branch_when_covered(covered: bool, width: int) -> None:
    drafter = scripted(Step(2, covered), Step(4, covered))
    drafter.draft(4)

    branches = drafter.prepare((width,) * 5, 4, lambda: 1, lambda: None)

    assert ((2, TRUTH[7]) in [b.key for b in branches]) == covered
    assert len({b.key for b in branches}) == 5 * width


def test_adopted_branch_follows_the_next_step() -> None:
    drafter = scripted(Step(1, True), Step(3, True))
    drafter.draft(4)
    hit = next(b for b in drafter.prepare((1,) * 5, 4, lambda: 1, lambda: None) if b.key == (1, TRUTH[6]))

    drafter.adopt(Outcome(accepted=(TRUTH[5],), bonus=TRUTH[6]), hit)

    assert hit.proposal is not None
    assert hit.proposal.tokens == (*TRUTH[7:10], TRUTH[10] + 1)


@pytest.mark.parametrize("width", range(6))
@pytest.mark.parametrize("rank", range(1, 6))
def test_true_bonus_is_the_branch_of_its_rank(rank: int, width: int) -> None:
    drafter = scripted(Step(2, covered=True, rank=rank))
    drafter.draft(4)

    branches = drafter.prepare((1, 1, width, 1, 1), 4, lambda: 1, lambda: None)

    right = [b.rank for b in branches if b.bonus == TRUTH[5 + b.accepted_len]]
    assert right == ([rank] if rank <= width else [])


def test_draft_cut_short_still_has_its_branch() -> None:
    drafter = scripted(Step(4, covered=True))
    drafter.draft(4)

    branches = drafter.prepare(
        (2, 2, 2), 4, lambda: 1, lambda: None
    )  # near the context's end: two are verified

    assert [b.key for b in branches if b.rank == 1 and b.bonus == TRUTH[5 + b.accepted_len]] == [
        (2, TRUTH[7])
    ]


@pytest.mark.parametrize("late", [(), (0, 2), (1, 2, 3), range(6)])
def test_what_is_late_shifts_no_later_draft(late: tuple[int, ...]) -> None:
    truth = list(range(200))
    drafter = ScriptedDrafter(AccuracyPlan(0.6, seed=4), 300, label="scripted")
    drafter.script(truth)
    drafter.begin(truth[:5], None, 0)
    n, found, proposal = 5, [], None
    for round_ in range(6):
        proposal = proposal or drafter.draft(4)
        accepted = next((i for i in range(4) if proposal.tokens[i] != truth[n + i]), 4)
        branches = [] if round_ in late else drafter.prepare((4,) * 5, 4, lambda: 1, lambda: None)
        outcome = Outcome(accepted=proposal.tokens[:accepted], bonus=truth[n + accepted])
        hit = next((b for b in branches if b.key == outcome.key), None)
        if hit is None:
            drafter.commit(outcome)
        else:
            drafter.adopt(outcome, hit)
        n, proposal = n + accepted + 1, hit.proposal if hit else None
        found.append(accepted)

    assert found == [AccuracyPlan(0.6, seed=4).step(round_, 4).accepted for round_ in range(6)]


def test_accuracy_plan_meets_its_rate() -> None:
    plan = AccuracyPlan(0.75, seed=3)
    steps = [plan.step(i, 1) for i in range(4000)]

    assert sum(step.accepted for step in steps) / 4000 == pytest.approx(0.75, abs=0.03)
    for rank, chance in ((1, 0.60), (2, 0.72), (3, 0.76), (4, 0.80), (9, 0.80)):
        within = sum(step.covered and step.rank <= rank for step in steps)
        assert within / 4000 == pytest.approx(chance, abs=0.03)


def test_accuracy_plan_draws_by_seed_and_round_alone() -> None:
    plan, twin, other = AccuracyPlan(0.7, seed=3), AccuracyPlan(0.7, seed=3), AccuracyPlan(0.7, seed=4)
    forward = [plan.step(i, 5) for i in range(60)]

    assert [twin.step(i, 5) for i in reversed(range(60))] == forward[::-1]
    assert [other.step(i, 5) for i in range(60)] != forward
    assert [min(step.accepted, 2) for step in forward] == [plan.step(i, 2).accepted for i in range(60)]


@pytest.mark.parametrize(("alpha", "accepted"), [(0.0, 0), (1.0, 6)])
def test_accuracy_plan_at_its_ends_is_certain(alpha: float, accepted: int) -> None:
    plan = AccuracyPlan(alpha)

    assert {plan.step(i, 6).accepted for i in range(50)} == {accepted}
