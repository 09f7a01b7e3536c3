"""A suffix tree before a model: who drafts, and that the model knows all that was emitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from torch import Tensor

from specmon.core.drafters.base import Outcome, Proposal
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.hybrid import HybridDrafter

Make = Callable[[], ChainDrafter]
Features = Callable[[Sequence[int], int, int], Tensor]
PHRASE = [9, 8, 7, 30, 31, 60, 12, 5, 77, 41, 3, 90]
TWICE = [*PHRASE, 200, *PHRASE[:8]]  # goes on with the phrase
K = 3


@pytest.fixture(params=["draft_model", "eagle3"])
def new_model(request: pytest.FixtureRequest) -> Make:
    name = "new_draft_model" if request.param == "draft_model" else "new_eagle3"
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


def outcome(
    made: HybridDrafter, text: list[int], features_of: Features, accepted: list[int], bonus: int
) -> Outcome:
    """Append to the text, as verification would."""
    first = len(text) - 1
    text += [*accepted, bonus]
    features = features_of(text, first, len(text) - 1) if made.info.tap_layers else None
    return Outcome(accepted=tuple(accepted), bonus=bonus, features_AF=features)


def begun(made: HybridDrafter | ChainDrafter, text: list[int], features_of: Features) -> None:
    made.begin(text, features_of(text, 0, len(text) - 1) if made.info.tap_layers else None, 0)


def assert_model_knows(made: HybridDrafter, text: list[int], new_model: Make, features_of: Features) -> None:
    """It drafts what a model would that takes in the whole text now."""
    fresh = new_model()
    begun(fresh, text, features_of)
    found, wanted = made.draft(K), fresh.draft(K)
    assert found.drafter == fresh.info.kind
    assert found.tokens == wanted.tokens
    assert found.probs == pytest.approx(wanted.probs, rel=1e-3)


def test_model_drafts_where_the_text_is_new(new_model: Make, features_of: Features) -> None:
    made, text = HybridDrafter(new_model()), list(PHRASE)
    begun(made, text, features_of)

    assert_model_knows(made, text, new_model, features_of)


@pytest.mark.parametrize("prepares", [False, True])
def test_model_is_kept_up_while_the_text_drafts(
    new_model: Make, features_of: Features, *, prepares: bool
) -> None:
    made, text = HybridDrafter(new_model()), list(TWICE)
    begun(made, text, features_of)
    found = made.draft(K)
    assert (found.drafter, found.tokens) == ("suffix", (77, 41, 3))
    if prepares:
        made.prepare((1,) * (K + 1), K, lambda: 0, lambda: None)

    made.commit(outcome(made, text, features_of, [77, 41], 100))

    assert_model_knows(made, text, new_model, features_of)


def test_text_takes_over_once_it_repeats(new_model: Make, features_of: Features) -> None:
    made, text = HybridDrafter(new_model()), [*PHRASE, 200]
    begun(made, text, features_of)
    for token in PHRASE[:7]:
        assert made.draft(K).drafter == ("suffix" if token == PHRASE[6] else made._model.info.kind)
        made.commit(outcome(made, text, features_of, [], token))

    assert made.draft(K) == Proposal(
        tokens=(5, 77, 41), probs=pytest.approx([7 / 8, 8 / 9, 9 / 10]), drafter="suffix"
    )


def test_adopted_branch_of_the_text_is_the_next_draft(new_model: Make, features_of: Features) -> None:
    """The phrase went on with 100 once; a branch is for that, and the model takes it in."""
    start = [*PHRASE, 200, *PHRASE[:8], 100, *range(101, 108), *PHRASE[:8], 77, 41, *PHRASE[:8]]
    made, text = HybridDrafter(new_model()), start
    begun(made, text, features_of)
    found = made.draft(2)
    assert (found.drafter, found.tokens) == ("suffix", (77, 41))
    branches = made.prepare((1, 0, 0), 2, lambda: 0, lambda: None)
    assert [branch.key for branch in branches] == [(0, 100)]

    made.adopt(outcome(made, text, features_of, [], 100), branches[0])

    assert branches[0].proposal is not None
    assert (branches[0].proposal.drafter, branches[0].proposal.tokens) == ("suffix", (101, 102))
    made.commit(outcome(made, text, features_of, [101], 250))
    assert_model_knows(made, text, new_model, features_of)


def test_adopted_branch_of_the_model_goes_on_from_its_slots(new_model: Make, features_of: Features) -> None:
    made, text = HybridDrafter(new_model()), list(PHRASE)
    begun(made, text, features_of)
    drafted = made.draft(K)
    branches = made.prepare((1,) * (K + 1), K, lambda: 0, lambda: None)
    branch = branches[1]

    made.adopt(outcome(made, text, features_of, list(drafted.tokens[:1]), branch.bonus), branch)
    assert branch.proposal is not None
    made.commit(outcome(made, text, features_of, list(branch.proposal.tokens[:1]), 250))

    assert_model_knows(made, text, new_model, features_of)
