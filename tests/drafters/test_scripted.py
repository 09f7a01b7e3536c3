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


def test_accuracy_plan_meets_its_rate() -> None:
    plan = AccuracyPlan(0.75, coverage=0.5, seed=3)
    steps = [plan.next(1) for _ in range(4000)]

    assert sum(step.accepted for step in steps) / 4000 == pytest.approx(0.75, abs=0.03)
    assert sum(step.covered for step in steps) / 4000 == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(("alpha", "accepted"), [(0.0, 0), (1.0, 6)])
def test_accuracy_plan_at_its_ends_is_certain(alpha: float, accepted: int) -> None:
    plan = AccuracyPlan(alpha)

    assert {plan.next(6).accepted for _ in range(50)} == {accepted}
