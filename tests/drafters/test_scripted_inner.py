"""A model inside a scripted drafter works as it would by itself, on the script's text and for the script's outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from specmon.core.drafters.base import Outcome, Prepared, Work
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.desk import Desk
from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.drafters.line import Line
from specmon.core.drafters.scripted import AccuracyPlan, PatternPlan, Plan, ScriptedDrafter, Step
from specmon.core.models.reference_passes import ReferencePasses

Features = Callable[[Sequence[int], int, int], Tensor]
Make = Callable[[], ChainDrafter]
K = 3
TRUTH = [(7 * i + 3) % 250 for i in range(90)]
N_PROMPT = 6
WIDE = (4,) * (K + 1)


class Fed:
    """Notes what a stepper is fed on the main line: (position, token)."""

    def __init__(self, stepper: Any) -> None:
        self._stepper, self.fed = stepper, list[tuple[int, int]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    def take_in(self, tokens: list[int], first: int, features: Tensor | None) -> None:
        self.fed += enumerate(tokens, first)
        self._stepper.take_in(tokens, first, features)

    def draft(self, tokens: list[int], first: int, features: Tensor | None, count: int, **more: Any) -> Any:
        self.fed += enumerate(tokens, first)
        return self._stepper.draft(tokens, first, features, count, **more)

    def likely(self, line: Line, n_context: int, count: int) -> Any:
        if line.fed < len(line.tokens):
            self.fed.append((n_context + len(line.tokens) - 1, line.tokens[-1]))
        return self._stepper.likely(line, n_context, count)


class Verdict(NamedTuple):
    """What became of a round's branches."""

    branches: tuple[Prepared, ...]
    hit: int | None
    miss: str | None
    work: Work


class Turn:
    """A scripted drafter at its desk, and the target's side of its rounds: whatever is true is accepted."""

    def __init__(self, inner: ChainDrafter, plan: Plan, features_of: Features) -> None:
        self.inner, self.n = inner, N_PROMPT
        self.fed: list[tuple[int, int]] = []
        self._features_of = features_of
        drafter = ScriptedDrafter(plan, 300, label="scripted", inner=inner)
        self.desk = Desk(drafter, lambda: 1)
        self.desk.script(TRUTH)
        self.desk.begin(TRUTH[:N_PROMPT], self._features(0, N_PROMPT - 1), 0)
        self.ready: tuple[int, ...] | None = None
        self.work = Work()

    def _features(self, first: int, end: int) -> Tensor | None:
        return self._features_of(TRUTH, first, end) if self.inner.stepper.corrects else None

    def outcome(self, tokens: Sequence[int]) -> Outcome:
        true = TRUTH[self.n : self.n + K]
        accepted = next((i for i in range(K) if tokens[i] != true[i]), K)
        return Outcome(
            accepted=tuple(true[:accepted]),
            bonus=TRUTH[self.n + accepted],
            features_AF=self._features(self.n - 1, self.n + accepted),
        )

    def round(
        self, fan_out: tuple[int, ...] = WIDE, *, seen_at: int | None = None
    ) -> tuple[Outcome, Verdict]:
        """Draft if nothing is ready, prepare, settle. `seen_at`: the look at which the outcome is there already."""
        self.work = Work()
        if self.ready is None:
            drafted = self.desk.draft(K)
            self.ready, self.work = drafted.proposal.tokens, drafted.work
        outcome = self.outcome(self.ready)
        looks = iter(range(1, 1000))
        made = self.desk.prepare(
            fan_out, K, lambda: outcome if seen_at is not None and next(looks) >= seen_at else None
        )
        settled = self.desk.settle(outcome)
        assert settled is not None
        self.work += settled.work
        self.n += outcome.accepted_len + 1
        hit = made.hit(outcome)
        proposal = made.prepared[hit].proposal if hit is not None else None
        self.ready = proposal.tokens if proposal else None
        miss = made.miss(outcome) if hit is None else None
        return outcome, Verdict(made.prepared, hit, miss, settled.work)


@pytest.fixture(params=["draft_model", "eagle3"])
def turn(request: pytest.FixtureRequest, features_of: Features) -> Callable[..., Turn]:
    make: Make = request.getfixturevalue(f"new_{request.param}")

    def start(*steps: Step, plan: Plan | None = None, watched: bool = False) -> Turn:
        inner = make()
        if watched:
            inner.stepper = Fed(inner.stepper)
        return Turn(inner, plan or PatternPlan(steps), features_of)

    return start


Start = Callable[..., Turn]


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("accepted", range(K + 1))
def test_outcome_hits_at_the_rank_the_script_names(turn: Start, accepted: int, rank: int) -> None:
    playing = turn(Step(accepted, covered=True, rank=rank))
    for _ in range(4):
        outcome, verdict = playing.round()

        assert outcome.accepted_len == accepted
        if rank > WIDE[accepted]:
            assert (verdict.hit, verdict.miss) == (None, "rank")
        else:
            assert verdict.hit is not None
            assert verdict.branches[verdict.hit].rank == rank
        assert [b.rank for b in verdict.branches if b.accepted_len == accepted] == [1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(5))
def test_inner_is_fed_the_text_and_each_position_once(turn: Start, seed: int) -> None:
    playing = turn(plan=AccuracyPlan(0.6, seed=seed), watched=True)
    lag = playing.inner.stepper.lag
    playing.inner.stepper.fed.clear()  # type: ignore[attr-defined]
    outcomes = set()
    for _ in range(10):
        before, adopted = playing.n, playing.ready
        _, verdict = playing.round((2, 1, 1, 2))
        outcomes.add(verdict.hit is None)
        fed, playing.inner.stepper.fed[:] = list(playing.inner.stepper.fed), []  # type: ignore[attr-defined]

        confirmed = [(p, t) for p, t in fed if p < before]
        assert confirmed == [(p, TRUTH[p]) for p, _ in confirmed]
        positions = [p for p, _ in fed]
        assert positions == sorted(set(positions))
        assert positions[-1] == before + K - 1  # the last drafted token, whose logits guess the bonus
        if adopted is None and not lag:
            assert positions[0] == before - 1  # what was accepted has its slots already
    assert outcomes == {True, False}


def test_inner_does_the_passes_of_a_draft_that_is_accepted_so_much(turn: Start) -> None:
    playing = turn(Step(2, covered=False), Step(1, covered=True, rank=2), Step(0, covered=True))
    again = (
        1 if playing.inner.stepper.corrects else 0
    )  # an adopted branch's start, with the target's features
    last, branches = 1, K

    playing.round()
    assert playing.work.forwards == K + last + branches
    playing.round()  # after a miss
    assert playing.work.forwards == K + last + branches
    playing.round()  # after a hit
    assert playing.work.forwards == again + last + branches


def test_inner_that_is_late_leaves_no_branch(turn: Start) -> None:
    playing = turn(Step(1, covered=True))

    _, verdict = playing.round(seen_at=1)

    assert (verdict.branches, verdict.hit, verdict.miss) == ((), None, "late")
    assert playing.round()[1].hit is not None


@pytest.mark.parametrize("seen_at", range(2, 2 + K))
@pytest.mark.parametrize("rank", [1, 3])
def test_early_outcome_finishes_its_own_branch_alone(turn: Start, rank: int, seen_at: int) -> None:
    playing = turn(Step(2, covered=True, rank=rank), Step(3, covered=True, rank=rank))
    for _ in range(3):
        outcome, verdict = playing.round(seen_at=seen_at)

        assert verdict.hit is not None
        assert [b.key for b in verdict.branches if b.proposal is not None] == [outcome.key]
        assert [b.key for b in verdict.branches if b.ready_at is not None] == [outcome.key]


@pytest.mark.parametrize("seen_at", range(2, 2 + K))
def test_early_outcome_without_a_branch_stops_the_work(turn: Start, seen_at: int) -> None:
    playing = turn(Step(2, covered=False))

    _, verdict = playing.round(seen_at=seen_at)

    assert (verdict.hit, verdict.miss) == (None, "rank")
    assert all(b.proposal is None and b.ready_at is None for b in verdict.branches)
    assert verdict.work.forwards == 1 + (seen_at - 2)


def test_branches_in_one_piece_are_the_script_s_too(new_draft_model: Make, features_of: Features) -> None:
    stepper = new_draft_model().stepper
    assert isinstance(stepper, DraftModelStepper)
    passes = ReferencePasses(stepper.model, stepper.kv)
    passes.whole_branches = True
    inner = ChainDrafter(DraftModelStepper(stepper.model, stepper.kv, passes, "tiny"))
    playing = Turn(inner, PatternPlan([Step(2, True, 3), Step(0, True, 5), Step(3, True, 4)]), features_of)

    verdicts = [playing.round(seen_at=2)[1] for _ in range(3)]  # early, but one piece runs to its end

    hits = [None if v.hit is None else v.branches[v.hit].rank for v in verdicts]
    assert hits == [3, None, 4]
    assert all(b.proposal is not None for v in verdicts for b in v.branches)


def test_hit_moves_the_slots_of_its_branch(turn: Start) -> None:
    playing = turn(Step(1, covered=True, rank=3))
    kv, lag = playing.inner.stepper.kv, playing.inner.stepper.lag
    moved: list[tuple[list[int], list[int]]] = []
    move, kv.move = (
        kv.move,
        lambda slots, into: (moved.append((slots.tolist(), into.tolist())), move(slots, into)),
    )  # type: ignore

    playing.round()

    ((slots, into),) = moved
    first = N_PROMPT + 1 - lag
    assert into == list(range(first, first + K))
    assert len(slots) == K
    assert slots[0] == N_PROMPT + K - lag + (4 + 2) * K  # the third branch after those of accepted_len 0
    assert torch.equal(kv.keys(0)[first], kv.keys(0)[slots[0]])


def test_next_turn_begins_where_the_text_leaves_the_last_one(turn: Start) -> None:
    playing = turn(Step(2, covered=True), Step(0, covered=False), watched=True)
    for _ in range(5):
        playing.round()
    stepper = playing.inner.stepper
    stepper.fed.clear()  # type: ignore[attr-defined]
    held = playing.n - 1

    playing.desk.begin(TRUTH[: playing.n + 4], playing._features(held - 1, playing.n + 3), held - 1)

    fed = stepper.fed  # type: ignore[attr-defined]
    assert fed == [(p, TRUTH[p]) for p, _ in fed]
    assert held - K - 1 <= fed[0][0] <= held + 1  # an adopted branch has fed the bonus
    assert fed[-1][0] == playing.n + 2


def test_info_is_the_inner_s_but_for_its_name(new_eagle3: Make) -> None:
    inner = new_eagle3()

    info = ScriptedDrafter(PatternPlan([Step(1, True)]), 300, label="scripted α=1", inner=inner).info

    assert (info.kind, info.label, info.tap_layers) == ("scripted", "scripted α=1", (0, 1, 2))
    assert info.weight_bytes == inner.info.weight_bytes > 0
