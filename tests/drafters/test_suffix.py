"""The suffix tree against counting by hand, and what is drafted and prepared from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.drafters.base import TO_COME, Outcome
from specmon.core.drafters.suffix import SuffixDrafter
from specmon.core.drafters.suffix_tree import SuffixTree

DEPTH = 6
TEXTS = st.lists(st.integers(0, 2), max_size=60)


def tree_of(text: list[int]) -> SuffixTree:
    tree = SuffixTree(DEPTH)
    for token in text:
        tree.add(token)
    return tree


def counted(text: list[int], suffix: list[int]) -> dict[int, int]:
    """What followed each earlier occurrence of `suffix`."""
    found: dict[int, int] = {}
    for end in range(len(suffix), len(text)):
        if text[end - len(suffix) : end] == suffix:
            found[text[end]] = found.get(text[end], 0) + 1
    return found


@given(TEXTS)
def test_match_is_the_longest_suffix_with_what_followed_it(text: list[int]) -> None:
    lengths = [n for n in range(1, min(DEPTH, len(text) + 1)) if counted(text, text[-n:])]

    match = tree_of(text).match(())

    assert (match.length if match else 0) == max(lengths, default=0)
    if match:
        assert dict(match.followers) == counted(text, text[-match.length :])
        times = [n for _, n in match.followers]
        assert times == sorted(times, reverse=True)
        assert sum(match.probability(n) for n in times) < 1


@given(TEXTS, st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_match_of_a_continuation_is_where_the_text_has_had_it(text: list[int], ahead: list[int]) -> None:
    match = tree_of(text).match(ahead)

    whole = [*text, *ahead]
    if match is None:
        assert not counted(text, ahead[-1:])
        return
    possible = counted(whole, whole[-match.length :])
    assert all(possible.get(token, 0) >= times for token, times in match.followers)


@given(TEXTS)
def test_followers_are_the_same_when_the_text_goes_on(text: list[int]) -> None:
    half = tree_of(text[: len(text) // 2])
    for token in text[len(text) // 2 :]:
        half.match([0])  # looking changes nothing
        half.add(token)

    assert half.match(()) == tree_of(text).match(())


def drafter(text: list[int]) -> SuffixDrafter:
    made = SuffixDrafter()
    made.begin(text, None, 0)
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 9, 1, 2, 3, 4], (5, 6, 9)),
        ([1, 2, 3, 1, 2, 4, 1, 2, 3, 9, 1, 2], (3, 9)),  # the most frequent, until the chance is low
        ([5, 1, 2, 3, 6, 1, 2, 4, 5, 1, 2], (3, 6, 1)),  # a longer match beats a newer one
        ([1, 2, 3, 1, 2, 4, 1, 2], (4, 1, 2)),  # of two as frequent the newest
        ([7] * 9, (7, 7, 7)),  # goes on into what it drafted itself
        ([1, 2, 3, 4], ()),
        ([1], ()),
    ],
)
def test_draft_is_what_followed_most_often(text: list[int], expected: tuple[int, ...]) -> None:
    assert drafter(text).draft(3).tokens == expected


def test_probabilities_grow_with_the_match_and_with_agreement() -> None:
    short, long = drafter([1, 2, 9, 1]).draft(1), drafter([1, 2, 3, 4, 5, 1, 2, 3, 4]).draft(1)
    often = drafter([1, 2, 1, 2, 1, 2, 1]).draft(1)

    assert short.probs[0] < long.probs[0] < 1
    assert short.probs[0] < often.probs[0]


def test_draft_stops_where_counts_are_low() -> None:
    """Four continuations, each seen once."""
    assert drafter([1, 2, 1, 3, 1, 4, 1, 5, 1]).draft(4).tokens == (5,)
    assert drafter([*(t for n in range(2, 12) for t in (1, n)), 1]).draft(4).tokens == ()


def test_generated_text_and_earlier_turns_are_searched() -> None:
    made = drafter([1, 2, 3])
    made.commit(Outcome(accepted=(4, 5), bonus=6))
    made.begin([1, 2, 3, 4, 5, 6, 20, 21, 3, TO_COME], None, 0)
    made.begin([1, 2, 3, 4, 5, 6, 20, 21, 3, 4], None, 0)

    assert made.draft(2).tokens == (5, 6)


def test_another_conversation_starts_anew() -> None:
    made = drafter([1, 2, 3, 1, 2])
    made.begin([1, 2], None, 0)

    assert made.draft(4).tokens == ()


def test_branches_are_other_followers_with_their_probability() -> None:
    made = drafter([1, 2, 3, 1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2])
    assert made.draft(1).tokens == (3,)

    branches = made.prepare((2, 1), 2, lambda: 7, lambda: None)

    assert [(b.accepted_len, b.bonus, b.rank, b.ready_at) for b in branches] == [
        (0, 5, 1, 7),
        (0, 4, 2, 7),
        (1, 1, 1, 7),
    ]
    assert all(b.probability is not None and 0 < b.probability < 1 for b in branches)
    made.adopt(Outcome(accepted=(), bonus=5), branches[0])
    assert branches[0].proposal is not None
    assert made.draft(2).tokens == branches[0].proposal.tokens == (1, 2)
