"""Token ids in a GGUF's metadata: what is none of the vocabulary's is refused by its field's name."""

from __future__ import annotations

from typing import Any

import pytest

from specmon.core.errors import SpecmonError
from specmon.core.models.gguf_fields import token_id

TOKENS = ["a", "b", "c"]


def fields(value: Any) -> dict[str, Any]:
    return {"tokenizer.ggml.tokens": TOKENS, "tokenizer.ggml.eot_token_id": value}


@pytest.mark.parametrize("value", [0, 2, 2.0])
def test_a_token_of_the_vocabulary_is_taken(value: float) -> None:
    assert token_id(fields(value), "eot", "a.gguf") == value


def test_a_role_without_a_token_has_none() -> None:
    assert token_id(fields(None), "eot", "a.gguf") is None
    assert token_id(fields(1), "eos", "a.gguf") is None


@pytest.mark.parametrize("value", [-1, 4294967295])
def test_the_null_token_is_none(value: int) -> None:
    assert token_id(fields(value), "eot", "a.gguf") is None


@pytest.mark.parametrize("value", [-2, 3, 4294967294])
def test_a_token_beyond_the_vocabulary_is_refused(value: int) -> None:
    with pytest.raises(
        SpecmonError, match=r"a\.gguf has .* as 'tokenizer\.ggml\.eot_token_id', but .* 3 tokens"
    ):
        token_id(fields(value), "eot", "a.gguf")


@pytest.mark.parametrize("value", [[2], [], "a", True, 1.5, float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(
        SpecmonError, match=r"as 'tokenizer\.ggml\.eot_token_id', which is not a (whole )?number"
    ):
        token_id(fields(value), "eot", "a.gguf")
