"""Whether two tokenizers say the same tokens, as far as both go."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as HfTokenizer
from tokenizers import models

from specmon.core.models.tokenizer import Tokenizer
from specmon.core.models.vocabulary import same_tokens

WORDS = {"the": 0, "cat": 1, "sat": 2}


def tokenizer(words: dict[str, int], *added: str) -> Tokenizer:
    backend = HfTokenizer(models.WordLevel(words, unk_token="the"))
    backend.add_special_tokens(list(added))
    return Tokenizer(backend, template=None, special={}, eos_ids=())


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (WORDS, True),
        ({**WORDS, "[PAD3]": 3}, True),
        ({"the": 0}, True),
        ({**WORDS, "<end>": 4}, True),
        ({"the": 0, "sat": 1, "cat": 2}, False),
        ({"the": 0, "dog": 1}, False),
        ({"the": 7}, False),
    ],
    ids=["same", "padded", "cut", "another gap", "order", "another word", "nothing in common"],
)
def test_tokens_are_the_same_where_both_know_an_id(other: dict[str, int], same: bool) -> None:
    assert same_tokens(tokenizer(WORDS), tokenizer(other)) == same
    assert same_tokens(tokenizer(other), tokenizer(WORDS)) == same


def test_special_tokens_count_too() -> None:
    ends = tokenizer(WORDS, "<end>")

    assert same_tokens(ends, tokenizer(WORDS, "<end>", "<more>"))
    assert not same_tokens(ends, tokenizer(WORDS, "<stop>"))
