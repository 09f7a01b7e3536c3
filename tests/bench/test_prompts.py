"""The benchmark prompts."""

from __future__ import annotations

from collections import Counter

from specmon.core.bench.prompts import bench_prompts


def test_three_prompts_tune_and_eight_evaluate() -> None:
    assert Counter(prompt.set for prompt in bench_prompts()) == {"tuning": 3, "evaluation": 8}


def test_both_sets_cover_code_math_and_prose() -> None:
    for name in ("tuning", "evaluation"):
        assert {prompt.kind for prompt in bench_prompts() if prompt.set == name} == {"code", "math", "prose"}
    lengths = Counter(prompt.length for prompt in bench_prompts() if prompt.set == "evaluation")
    assert lengths == {"short": 4, "long": 4}


def test_names_and_texts_are_given_once() -> None:
    assert len({prompt.name for prompt in bench_prompts()}) == len({p.text for p in bench_prompts()}) == 11
