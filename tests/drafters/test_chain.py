"""A chain drafter's KV always stands for the confirmed text: what it proposes is what a fresh one would."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from specmon.core.drafters.base import TO_COME, Branches, Outcome, Prepared, Proposal
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.desk import Desk
from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.models.passes import (
    MAX_ROWS,
    BranchesOut,
    BranchStart,
    ChainOut,
    LikelyOut,
    Passes,
    Pick,
    RowsOut,
)
from specmon.core.models.reference_passes import ReferencePasses

Features = Callable[[Sequence[int], int, int], Tensor]
Make = Callable[[], ChainDrafter]
K = 3
START = [9, 8, 7, 30, 31]


class Follower:
    """A drafter and the text it follows."""

    def __init__(self, drafter: ChainDrafter, features_of: Features, text: list[int]) -> None:
        self.drafter, self._features_of, self.text = drafter, features_of, list(text)
        drafter.begin(self.text, self.features(0, len(text) - 1), 0)

    def features(self, first: int, end: int) -> Tensor | None:
        return self._features_of(self.text, first, end) if self.drafter.stepper.corrects else None

    def outcome(self, accepted: Sequence[int], bonus: int) -> Outcome:
        """The outcome, with the text grown by it."""
        before = len(self.text)
        self.text += [*accepted, bonus]
        return Outcome(
            accepted=tuple(accepted), bonus=bonus, features_AF=self.features(before - 1, len(self.text) - 1)
        )

    def prepare(self, fan_out: tuple[int, ...]) -> list[Prepared]:
        return self.drafter.prepare(fan_out, K, lambda: 1, lambda: None)

    def commit(self, accepted: Sequence[int], bonus: int) -> None:
        self.drafter.commit(self.outcome(accepted, bonus))

    def adopt(self, proposal: Proposal, branch: Prepared) -> None:
        self.drafter.adopt(self.outcome(proposal.tokens[: branch.accepted_len], branch.bonus), branch)


@pytest.fixture(params=["draft_model", "eagle3"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.getfixturevalue(f"new_{request.param}")
    return made


@pytest.fixture
def follow(make: Make, features_of: Features) -> Callable[[list[int]], Follower]:
    return lambda text: Follower(make(), features_of, text)


Follow = Callable[[list[int]], Follower]


def assert_like_fresh(follower: Follower, follow: Follow) -> None:
    """Draft, and compare with a drafter that has only ever seen this text."""
    found, fresh = follower.drafter.draft(K), follow(follower.text).drafter.draft(K)
    assert found.tokens == fresh.tokens
    assert found.probs == pytest.approx(fresh.probs, rel=1e-3)


def spoil_stale_slots(follower: Follower) -> None:
    """Overwrite what the drafter has no right to read: every slot past the confirmed text."""
    kv, first = follower.drafter.stepper.kv, len(follower.text)
    for layer in range(1 if follower.drafter.stepper.lag else 3):
        kv.keys(layer)[first:] = 1e3
        kv.values(layer)[first:] = -1e3


@pytest.mark.parametrize("accepted_len", range(K + 1))
def test_draft_after_any_acceptance_is_a_fresh_one(follow: Follow, accepted_len: int) -> None:
    follower = follow(START)
    for bonus in (40, 41, 42):
        proposal = follower.drafter.draft(K)
        follower.commit(proposal.tokens[:accepted_len], bonus)

    spoil_stale_slots(follower)
    assert_like_fresh(follower, follow)


@pytest.mark.parametrize("accepted_len", range(K + 1))
def test_miss_after_preparing_leaves_a_fresh_state(follow: Follow, accepted_len: int) -> None:
    follower = follow(START)
    proposal = follower.drafter.draft(K)
    follower.prepare((2, 2, 2, 2))

    follower.commit(proposal.tokens[:accepted_len], 50)

    assert_like_fresh(follower, follow)


@pytest.mark.parametrize("accepted_len", range(K + 1))
def test_adopted_branch_is_what_a_fresh_drafter_proposes(
    new_draft_model: Make, features_of: Features, accepted_len: int
) -> None:
    follower = Follower(new_draft_model(), features_of, START)
    proposal = follower.drafter.draft(K)
    for branch in follower.prepare((2, 2, 2, 2)):
        if branch.accepted_len == accepted_len:
            text = [*START, *proposal.tokens[:accepted_len], branch.bonus]

            fresh = Follower(new_draft_model(), features_of, text).drafter.draft(K)

            assert branch.proposal is not None
            assert branch.proposal.tokens == fresh.tokens
            assert branch.proposal.probs == pytest.approx(fresh.probs, rel=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_any_walk_of_hits_and_misses_stays_fresh(follow: Follow, seed: int) -> None:
    dice = random.Random(seed)
    follower = follow(START)
    proposal = follower.drafter.draft(K)
    for _ in range(8):
        branches = follower.prepare((*dice.choices((0, 1, 3), k=K), 1))
        if dice.random() < 0.6:
            chosen = dice.choice(branches)
            follower.adopt(proposal, chosen)
            assert chosen.proposal is not None
            proposal = chosen.proposal
        else:
            follower.commit(proposal.tokens[: dice.randint(0, K)], dice.randint(60, 90))
            proposal = follower.drafter.draft(K)

    follower.prepare((0, 0, 0, 0))
    follower.commit(proposal.tokens[:1], 33)
    spoil_stale_slots(follower)
    assert_like_fresh(follower, follow)


def test_branches_are_the_best_guesses_that_were_not_proposed(follow: Follow) -> None:
    follower = follow(START)
    proposal = follower.drafter.draft(K)

    branches = follower.prepare((2, 0, 3, 1))

    assert [(b.accepted_len, b.rank) for b in branches] == [(0, 1), (0, 2), (2, 1), (2, 2), (2, 3), (3, 1)]
    for branch in branches:
        assert branch.accepted_len == K or branch.bonus != proposal.tokens[branch.accepted_len]
        assert branch.proposal is not None
        assert len(branch.proposal.tokens) == K
    probabilities = [b.probability for b in branches if b.accepted_len == 2]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(0 < p < proposal.probs[2] for p in probabilities)


def test_empty_draft_still_prepares(follow: Follow) -> None:
    follower = follow(START)

    proposal = follower.drafter.draft(0)
    branches = follower.prepare((2,))

    assert proposal.tokens == ()
    follower.adopt(proposal, branches[0])
    follower.prepare((0, 0, 0, 1))
    follower.commit((), 12)
    assert_like_fresh(follower, follow)


@pytest.mark.parametrize("keep", range(1, 9))
def test_next_turn_keeps_what_is_common(follow: Follow, features_of: Features, keep: int) -> None:
    follower = follow(START)
    for bonus in (40, 41):
        follower.commit(follower.drafter.draft(K).tokens[:1], bonus)
    first = max(0, keep - 1)
    follower.text = [*follower.text[:keep], 70, 71, 72]

    follower.drafter.begin(follower.text, follower.features(first, len(follower.text) - 1), first)

    assert_like_fresh(follower, follow)


def test_turn_may_end_with_features_not_yet_taken_in(new_eagle3: Make, features_of: Features) -> None:
    follower = Follower(new_eagle3(), features_of, START)
    follower.commit(follower.drafter.draft(K).tokens, 40)  # three accepted, their features unfed
    held = len(follower.text) - 1
    follower.text += [70, 71]

    follower.drafter.begin(follower.text, follower.features(held - 1, len(follower.text) - 1), held - 1)

    assert_like_fresh(follower, lambda text: Follower(new_eagle3(), features_of, text))


def test_missing_features_are_refused(new_eagle3: Make, features_of: Features) -> None:
    drafter = new_eagle3()

    with pytest.raises(ValueError, match="features start at 2"):
        drafter.begin(START, features_of(START, 2, 4), 2)


# --- the outcome comes while branches are made -----------------------------------------------------------------


def arrives_at(call: int, outcome: Outcome) -> Callable[[], Outcome | None]:
    """An `arrived` that knows the outcome from its n-th call on."""
    calls = iter(range(1, 1000))
    return lambda: outcome if next(calls) >= call else None


def desk_round(
    follower: Follower, call: int, accepted_len: int, pick: int | None
) -> tuple[Branches, Outcome]:
    """Draft, then prepare two branches an accepted_len with the outcome arriving at the n-th look.

    `pick`: the bonus is that branch's; None: one no branch has.
    """
    desk = Desk(follower.drafter, lambda: 1)
    proposal = desk.draft(K).proposal
    twin = follower.drafter.prepare((2, 2, 2, 2), K, lambda: 1, lambda: None)
    bonuses = [b.bonus for b in twin if b.accepted_len == accepted_len]
    bonus = next(t for t in range(90, 99) if t not in bonuses) if pick is None else bonuses[pick]
    outcome = follower.outcome(proposal.tokens[:accepted_len], bonus)
    branches = desk.prepare((2, 2, 2, 2), K, arrives_at(call, outcome))
    assert desk.settle(outcome) is not None
    return branches, outcome


def test_outcome_before_branches_are_chosen_is_late(follow: Follow) -> None:
    follower = follow(START)
    branches, outcome = desk_round(follower, call=1, accepted_len=1, pick=0)

    assert (branches.prepared, branches.hit(outcome), branches.miss(outcome)) == ((), None, "late")
    assert_like_fresh(follower, follow)


@pytest.mark.parametrize("call", range(2, 2 + K))
@pytest.mark.parametrize("accepted_len", range(K + 1))
def test_outcome_while_branches_are_drafted_finishes_its_own(
    follow: Follow, call: int, accepted_len: int
) -> None:
    follower = follow(START)
    branches, outcome = desk_round(follower, call=call, accepted_len=accepted_len, pick=1)

    hit = branches.hit(outcome)
    assert hit is not None
    assert branches.prepared[hit].key == outcome.key
    assert [b.key for b in branches.prepared if b.proposal is not None] == [outcome.key]
    assert len(branches.prepared) == 8  # the others are kept, unfinished
    follower.prepare((0, 0, 0, 0))
    follower.commit((), 20)
    assert_like_fresh(follower, follow)


def test_outcome_without_a_branch_stops_the_drafting(follow: Follow) -> None:
    follower = follow(START)
    branches, outcome = desk_round(follower, call=3, accepted_len=2, pick=None)

    assert (branches.hit(outcome), branches.miss(outcome)) == (None, "rank")
    assert all(b.proposal is None and b.ready_at is None for b in branches.prepared)
    assert_like_fresh(follower, follow)


def test_work_counts_forwards_and_bytes(new_draft_model: Make) -> None:
    drafter = new_draft_model()
    drafter.begin(START, None, 0)
    drafter.take_work()

    drafter.draft(K)

    work, info = drafter.take_work(), drafter.info
    assert work.forwards == K
    assert work.weight_bytes == K * info.weight_bytes
    positions = sum(len(START) + i for i in range(K))
    assert work.kv_bytes == positions * info.kv_bytes_per_token
    assert drafter.take_work().forwards == 0


# --- one chain a draft ------------------------------------------------------------------------------------------


class CountedPasses:
    """Passes that say what they were asked for, and that each is one launch."""

    captures, chunk, runs_ahead, whole_branches = False, 256, False, False
    first_chunks: tuple[int, ...] = ()

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self.asked: list[tuple[str, int, int, bool]] = []

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        self.asked.append(("prefill", len(ids_N), start, True))
        return self._passes.prefill(ids_N, start, taps)

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        self.asked.append(("rows", len(tokens), start, logits))
        return replace(self._passes.rows(tokens, start, taps, logits=logits), launches=1)

    def begin_rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> None:
        raise NotImplementedError("a drafter waits for its rows")

    def end_rows(self) -> RowsOut:
        raise NotImplementedError("a drafter waits for its rows")

    def chain(self, tokens: Sequence[int], start: int, steps: int, *, logits: bool) -> ChainOut:
        self.asked.append((f"chain of {steps}", len(tokens), start, logits))
        return replace(self._passes.chain(tokens, start, steps, logits=logits), launches=1)

    def branches(self, starts: Sequence[BranchStart], steps: int, batch: int = 0) -> BranchesOut:
        first = min(start.prefix for start in starts)
        self.asked.append((f"{len(starts)} branches of {steps} in batch {batch}", 1, first, True))
        return replace(self._passes.branches(starts, steps, batch), launches=1)

    def likely(self, seen: Sequence[Tensor], token: int | None, position: int, count: int) -> LikelyOut:
        self.asked.append((f"{count} likely tokens", len(seen) + (token is not None), position, True))
        return replace(self._passes.likely(seen, token, position, count), launches=1)

    def likely_branches(
        self,
        seen: Sequence[Tensor],
        token: int | None,
        position: int,
        count: int,
        picks: Sequence[Pick],
        steps: int,
    ) -> tuple[LikelyOut, BranchesOut]:
        kind = f"{count} likely tokens and {len(picks)} branches of {steps}"
        self.asked.append((kind, len(seen) + (token is not None), position, True))
        likely, branches = self._passes.likely_branches(seen, token, position, count, picks, steps)
        return replace(likely, launches=1), replace(branches, launches=0)

    def queued_rounds(self, board: Any, memory: Tensor, taps: Sequence[int]) -> None:
        raise NotImplementedError("a drafter's rounds are the target's")

    def move(self, slots: Sequence[int], first: int) -> int | None:
        self.asked.append(("move", len(slots), first, False))
        self._passes.move(slots, first)
        return 1


@pytest.fixture
def counted(new_draft_model: Make) -> Callable[[bool], tuple[ChainDrafter, CountedPasses]]:
    def build(branches: bool) -> tuple[ChainDrafter, CountedPasses]:
        stepper = new_draft_model().stepper
        assert isinstance(stepper, DraftModelStepper)
        passes = CountedPasses(ReferencePasses(stepper.model, stepper.kv))
        again = DraftModelStepper(stepper.model, stepper.kv, passes, "tiny")
        return ChainDrafter(again, branches=branches), passes

    return build


Counted = Callable[[bool], tuple[ChainDrafter, CountedPasses]]


def test_a_draft_for_sd_is_one_chain_without_logits(counted: Counted) -> None:
    drafter, passes = counted(False)
    drafter.begin(START, None, 0)
    drafter.take_work()
    passes.asked.clear()

    first = drafter.draft(K)
    launches = [drafter.take_work().launches]
    drafter.commit(Outcome(accepted=first.tokens, bonus=40))
    drafter.draft(K)
    launches.append(drafter.take_work().launches)

    n = len(START)
    assert passes.asked == [(f"chain of {K}", 1, n - 1, False), (f"chain of {K}", 2, n + K - 1, False)]
    assert launches == [1, 1]
    with pytest.raises(ValueError, match="branches"):
        drafter.prepare((1,), K, lambda: 1, lambda: None)


def test_a_draft_for_ssd_feeds_its_last_token_while_it_finds_likely_ones(counted: Counted) -> None:
    drafter, passes = counted(True)
    drafter.begin(START, None, 0)
    drafter.take_work()
    passes.asked.clear()

    drafter.draft(K)
    assert drafter.take_work().launches == 1
    drafter.prepare((0, 0, 0, 2), K, lambda: 1, lambda: None)

    n = len(START)
    assert passes.asked == [(f"chain of {K}", 1, n - 1, True), ("3 likely tokens", K + 1, n + K - 1, True)]
    assert drafter.take_work().launches is None  # branches run on torch's ops


@pytest.mark.parametrize(
    ("branches", "warmed"),
    [(False, ["chain of 4", "chain of 4"]), (True, ["chain of 4", "1 likely tokens", "move"])],
)
def test_warming_runs_what_a_turn_will_run(counted: Counted, branches: bool, warmed: list[str]) -> None:
    drafter, passes = counted(branches)
    said: list[str] = []
    passes.captures = True
    assert isinstance(drafter.stepper, DraftModelStepper)

    drafter.stepper.warm(4, guesses=branches, progress=lambda what, part: said.append(what))

    assert [kind for kind, *_ in passes.asked] == warmed
    first, *others = said
    assert first == "capturing graphs: draft 4 after 1 token"
    assert others == [
        f"capturing graphs: {'likely tokens after 4' if branches else 'draft 4 after 2 tokens'}"
    ]


def test_warming_runs_short_prompts_first(counted: Counted) -> None:
    drafter, passes = counted(False)
    said: list[str] = []
    passes.captures, passes.first_chunks = True, (64, 100_000)
    stepper = drafter.stepper
    assert isinstance(stepper, DraftModelStepper)

    stepper.warm(4, guesses=False, progress=lambda what, part: said.append(what))

    ran = [n for kind, n, *_ in passes.asked if kind == "prefill"]
    assert (ran[0], sum(ran[1:])) == (64, stepper.kv.n_slots)
    assert said[:2] == ["capturing graphs: draft prompt 64", "capturing graphs: draft prompt 100000"]


def test_warming_drafts_up_to_16_branches_in_one_piece(counted: Counted) -> None:
    drafter, passes = counted(True)
    said: list[str] = []
    passes.captures = passes.whole_branches = True
    assert isinstance(drafter.stepper, DraftModelStepper)

    drafter.stepper.warm(4, guesses=True, progress=lambda what, part: said.append(what), n_branches=MAX_ROWS)

    whole = f"{MAX_ROWS + 1} likely tokens and {MAX_ROWS} branches of 4"
    assert [kind for kind, *_ in passes.asked] == ["chain of 4", whole, "move"]
    assert said[1:] == [f"capturing graphs: {MAX_ROWS} branches of 4"]


def test_warming_drafts_as_many_branches_as_a_round(counted: Counted) -> None:
    drafter, passes = counted(True)
    said: list[str] = []
    passes.captures = passes.whole_branches = True
    assert isinstance(drafter.stepper, DraftModelStepper)

    drafter.stepper.warm(
        4, guesses=True, progress=lambda what, part: said.append(what), n_branches=MAX_ROWS + 1
    )

    assert [kind for kind, *_ in passes.asked][1:] == [
        f"{MAX_ROWS + 2} likely tokens",  # as many as one outcome may get, and the one that was proposed
        "move",
        f"{MAX_ROWS} branches of 4 in batch 0",
        "1 branches of 4 in batch 1",
    ]
    assert said[2:] == [f"capturing graphs: {MAX_ROWS} branches of 4", "capturing graphs: 1 branch of 4"]


@pytest.mark.parametrize(("fan_out", "batches"), [((2, 0, 1, 2), [5]), ((9, 8, 7, 10), [16, 16, 2])])
def test_branches_in_one_piece_are_those_of_single_steps(
    counted: Counted, fan_out: tuple[int, ...], batches: list[int]
) -> None:
    (stepwise, _), (at_once, passes) = counted(True), counted(True)
    passes.whole_branches = True
    found = []
    for drafter in (stepwise, at_once):
        drafter.begin(START, None, 0)
        drafter.draft(K)
        drafter.take_work()
        found.append(drafter.prepare(fan_out, K, lambda: 1, lambda: None))

    for one, other in zip(*found, strict=True):
        assert one.proposal is not None
        assert other.proposal is not None
        assert (one.key, one.proposal.tokens, one.ready_at) == (
            other.key,
            other.proposal.tokens,
            other.ready_at,
        )
        assert one.proposal.probs == pytest.approx(other.proposal.probs, rel=1e-3)
    asked = [kind for kind, *_ in passes.asked if "branches" in kind]
    if len(batches) == 1:
        assert asked == [f"{max(fan_out) + 1} likely tokens and {batches[0]} branches of {K}"]
    else:
        assert asked == [f"{count} branches of {K} in batch {i}" for i, count in enumerate(batches)]
    work = at_once.take_work()
    assert work.forwards == 1 + K * len(batches)  # the draft's last token, then the branches
    if len(batches) == 1:
        assert work.kv_bytes == stepwise.take_work().kv_bytes


def test_a_round_of_ssd_knows_its_launches(counted: Counted) -> None:
    """A hit: likely tokens with their branches, the move. A miss: the same, then the next draft."""
    drafter, passes = counted(True)
    passes.whole_branches = True
    drafter.begin(START, None, 0)
    proposal = drafter.draft(K)
    drafter.take_work()

    branch = drafter.prepare((1, 1, 1, 1), K, lambda: 1, lambda: None)[0]
    drafter.adopt(Outcome(accepted=(), bonus=branch.bonus), branch)
    launches = [drafter.take_work().launches]
    drafter.prepare((1, 1, 1, 1), K, lambda: 1, lambda: None)
    drafter.commit(Outcome(accepted=proposal.tokens[:1], bonus=90))
    drafter.draft(K)
    launches.append(drafter.take_work().launches)

    assert launches == [2, 2]


@pytest.mark.parametrize("seed", range(3))
def test_hits_on_branches_in_one_piece_stay_fresh(counted: Counted, features_of: Features, seed: int) -> None:
    def follow(text: list[int]) -> Follower:
        drafter, passes = counted(True)
        passes.whole_branches = True
        return Follower(drafter, features_of, text)

    dice, follower = random.Random(seed), follow(START)
    proposal = follower.drafter.draft(K)
    for _ in range(5):
        chosen = dice.choice(follower.prepare((2, 1, 2, 2)))
        follower.adopt(proposal, chosen)
        assert chosen.proposal is not None
        proposal = chosen.proposal

    follower.commit(proposal.tokens[:1], 33)
    spoil_stale_slots(follower)
    assert_like_fresh(follower, follow)


def test_branches_in_one_piece_run_to_their_end(counted: Counted) -> None:
    """An outcome that comes while they run finds its branch, and the others too."""
    drafter, passes = counted(True)
    passes.whole_branches = True
    drafter.begin(START, None, 0)
    proposal = drafter.draft(K)
    asked = 0

    def arrived() -> Outcome | None:
        nonlocal asked
        asked += 1
        return Outcome(accepted=proposal.tokens[:1], bonus=40) if asked > 1 else None

    prepared = drafter.prepare((1, 1, 1, 1), K, lambda: 7, arrived)

    assert [branch.ready_at for branch in prepared] == [7] * 4


def test_confirmed_tokens_beyond_a_pass_are_fed_before_the_draft(counted: Counted) -> None:
    drafter, _ = counted(False)
    text = [(7 * i) % 90 + 5 for i in range(24)]
    drafter.begin(text[:2], None, 0)
    drafter.commit(Outcome(accepted=tuple(text[2:23]), bonus=text[23]))

    found = drafter.draft(K)

    assert (
        found.tokens == Follower(counted(False)[0], lambda *_: torch.empty(0), text).drafter.draft(K).tokens
    )


def test_prompt_is_taken_in_before_token_one_is_known(
    new_draft_model: Make, features_of: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter = new_draft_model()
    drafter.begin([*START, TO_COME], None, 0)
    monkeypatch.setattr(drafter.stepper, "take_in", None)  # nothing is left for it

    drafter.begin([*START, 40], None, 0)
    fresh = Follower(new_draft_model(), features_of, [*START, 40]).drafter

    assert drafter.draft(K).tokens == fresh.draft(K).tokens
