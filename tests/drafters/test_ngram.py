"""N-gram look-ups, by hand."""

from __future__ import annotations

import pytest

from specmon.core.drafters.base import TO_COME, Outcome
from specmon.core.drafters.ngram import NgramDrafter


def after(text: list[int], draft_len: int = 4) -> tuple[int, ...]:
    drafter = NgramDrafter()
    drafter.begin(text, None, 0)
    return drafter.draft(draft_len).tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([1, 2, 3, 4, 5, 1, 2], (3, 4, 5, 1)),  # the suffix 1 2 was followed by 3
        ([1, 2, 3, 9, 1, 2, 4, 8, 1, 2], (4, 8, 1, 2)),  # newest match first
        ([5, 1, 2, 3, 6, 1, 2, 4, 5, 1, 2], (3, 6, 1, 2)),  # a longer suffix beats a newer one
        ([7, 7, 7], (7, 7, 7, 7)),  # goes on into what it drafted itself
        ([1, 2, 3, 4], ()),  # nothing repeats
        ([3, 1, 2, 3], ()),  # one token alone is too short a suffix
        ([1], ()),
    ],
)
def test_draft_continues_the_longest_newest_match(text: list[int], expected: tuple[int, ...]) -> None:
    assert after(text) == expected


def test_draft_is_no_longer_than_asked() -> None:
    assert after([1, 2, 3, 4, 5, 1, 2], 2) == (3, 4)
    assert after([1, 2, 3, 4, 5, 1, 2], 0) == ()


def test_draft_goes_round_in_what_repeats() -> None:
    assert after([1, 2, 3, 9, 9, 4, 1, 2], 8) == (3, 9, 9, 4, 1, 2, 3, 9)
    assert after([1, 2, 3, 1, 2], 1) == (3,)


def test_generated_text_is_searched_too() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3], None, 0)
    assert drafter.draft(4).tokens == ()

    drafter.commit(Outcome(accepted=(), bonus=4))
    drafter.commit(Outcome(accepted=(2, 3), bonus=4))

    assert drafter.draft(1).tokens == (2,)  # 1 2 3 4 2 3 4: the suffix 2 3 4 was followed by 2


def test_branches_are_other_followers_newest_first() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2], None, 0)
    assert drafter.draft(2).tokens == (5, 1)

    branches = drafter.prepare((2, 0, 1), 2, lambda: 7, lambda: None)

    assert [(b.accepted_len, b.bonus, b.rank, b.ready_at) for b in branches] == [
        (0, 4, 1, 7),
        (0, 3, 2, 7),
        (2, 2, 1, 7),
    ]
    proposals = [b.proposal.tokens for b in branches if b.proposal]
    assert proposals == [(1, 2), (1, 2), (5, 1)]


def test_adopted_branch_is_the_next_proposal() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 1, 2, 4, 1, 2], None, 0)
    drafter.draft(2)
    (branch,) = drafter.prepare((1, 0, 0), 2, lambda: 0, lambda: None)

    drafter.adopt(Outcome(accepted=(), bonus=3), branch)

    assert branch.key == (0, 3)
    assert branch.proposal is not None
    assert branch.proposal.tokens == (1, 2)
    assert drafter.draft(2).tokens == (1, 2)  # the text now ends 1 2 3


def test_next_turn_forgets_the_last_one() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 1, 2], None, 0)

    drafter.begin([1, 2], None, 0)

    assert drafter.draft(4).tokens == ()


def test_turn_that_goes_on_keeps_what_was_indexed() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3], None, 0)
    drafter.commit(Outcome(accepted=(4,), bonus=5))

    drafter.begin([1, 2, 3, 4, 5, 9, 2, TO_COME], None, 0)  # the prompt, before token one is known
    drafter.begin([1, 2, 3, 4, 5, 9, 2, 3], None, 0)

    assert drafter.draft(2).tokens == (4, 5)


def test_branches_are_as_many_as_asked_for() -> None:
    drafter = NgramDrafter()
    drafter.begin([*(t for n in range(10, 30) for t in (1, 2, n)), 1, 2], None, 0)
    assert drafter.draft(1).tokens == (29,)

    branches = drafter.prepare((3, 0), 1, lambda: 0, lambda: None)

    assert [branch.bonus for branch in branches] == [28, 27, 26]
