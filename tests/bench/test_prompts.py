"""The benchmark prompts."""

from __future__ import annotations

from collections import Counter

import pytest

from specmon.core import paths
from specmon.core.bench.prompts import bench_prompts
from specmon.core.models.source import open_model


def test_three_prompts_tune_and_eight_evaluate() -> None:
    assert Counter(prompt.set for prompt in bench_prompts()) == {"tuning": 3, "evaluation": 8}


def test_both_sets_cover_code_math_and_prose() -> None:
    for name in ("tuning", "evaluation"):
        assert {prompt.kind for prompt in bench_prompts() if prompt.set == name} == {"code", "math", "prose"}
    lengths = Counter(prompt.length for prompt in bench_prompts() if prompt.set == "evaluation")
    assert lengths == {"short": 4, "long": 4}


@pytest.mark.embedded
def test_long_prompts_are_long_and_short_ones_short() -> None:
    tokenizer = open_model("smollm2", paths.cache_dir()).tokenizer()
    for prompt in bench_prompts():
        n_tokens = len(tokenizer.encode_chat((("user", prompt.text),)))
        low, high = (1000, 2000) if prompt.length == "long" else (1, 100)
        assert low <= n_tokens < high, prompt.name


def test_names_and_texts_are_given_once() -> None:
    assert len({prompt.name for prompt in bench_prompts()}) == len({p.text for p in bench_prompts()}) == 11
