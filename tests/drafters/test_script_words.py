"""How a scripted drafter is spelt, and what its coverage means rank by rank."""

from __future__ import annotations

import pytest

from specmon.core.drafters.script_words import Coverage, Script, parse_script
from specmon.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("0.78", Script(alpha=0.78)),
        ("1", Script(alpha=1.0)),
        ("0.78@random:qwen2.5-0.5b", Script(alpha=0.78, model="random:qwen2.5-0.5b")),
        ("0.5:coverage=0.6", Script(alpha=0.5, coverage=Coverage((0.6,)))),
        (
            "0.5:coverage=0.1/0.1/0.9/1@/models/a@b:c",
            Script(alpha=0.5, coverage=Coverage((0.1, 0.1, 0.9, 1.0)), model="/models/a@b:c"),
        ),
        ("0.5@org/model", Script(alpha=0.5, model="org/model")),
    ],
)
def test_script_is_an_accuracy_with_coverage_and_a_model(text: str, script: Script) -> None:
    assert parse_script(text) == script


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "gives no accuracy")
            for text in ("", "x", "1.5", "-0.1", "nan", "@random:a", ":coverage=1")
        ),
        *((text, "names no model after the @") for text in ("0.5@", "0.5:coverage=1@ ")),
        *((f"0.5:{more}", "only coverage=") for more in ("", "0.6/0.72", "random:a", "recall=1")),
        *(
            (f"0.5:coverage={values}", "gives no coverage")
            for values in ("", "x", "0.6/", "0.6,0.7", "0.7/0.6", "0.6/1.2", "0.1/0.2/0.3/0.4/0.5/0.6")
        ),
    ],
)
def test_script_that_cannot_be_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_script(text)

    assert str(refused.value).startswith(f"scripted:{text} ")


def test_label_says_accuracy_and_coverage() -> None:
    assert parse_script("0.78").label == "scripted α=0.78 (0.6/0.72/0.8)"
    assert parse_script("0.5:coverage=1@x").label == "scripted α=0.5 (1)"


def test_coverage_grows_linearly_between_its_ranks_and_not_past_the_last() -> None:
    within = Coverage((0.4, 0.6, 0.8, 0.9)).within

    assert [within(rank) for rank in range(1, 11)] == pytest.approx(
        [0.4, 0.6, 0.7, 0.8, 0.825, 0.85, 0.875, 0.9, 0.9, 0.9]
    )
    assert [Coverage((0.3,)).within(rank) for rank in (1, 2, 9)] == [0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    ("draw", "rank"),
    [(0.0, 1), (0.59, 1), (0.6, 2), (0.72, 3), (0.765, 4), (0.79, 4), (0.8, None), (0.99, None)],
)
def test_a_draw_is_the_first_rank_that_covers_it(draw: float, rank: int | None) -> None:
    assert Coverage((0.6, 0.72, 0.8)).rank(draw) == rank


def test_full_and_no_coverage_are_certain() -> None:
    assert {Coverage((1.0,)).rank(i / 100) for i in range(100)} == {1}
    assert {Coverage((0.0, 0.0)).rank(i / 100) for i in range(100)} == {None}
