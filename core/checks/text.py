"""The text that logits are compared along: prose, dialogue, code and sums, written for specmon."""

from __future__ import annotations

from collections.abc import Sequence

from specmon.core.errors import SpecmonError
from specmon.core.models.source import DATA
from specmon.core.models.tokenizer import Tokenizer


def shipped_text() -> str:
    """The whole text."""
    return (DATA / "quality" / "text.txt").read_text("utf-8")


def text_ids(tokenizer: Tokenizer, at_most: int) -> list[int]:
    """Its token ids, no more than `at_most`. Raises: SpecmonError where there is no place for two."""
    ids = tokenizer.encode(shipped_text())[:at_most]
    if len(ids) < 2:
        raise SpecmonError(f"The model takes {at_most} tokens, which are too few for a text.")
    return ids


def ids_of_length(ids: Sequence[int], length: int) -> list[int]:
    """`length` token ids: the text's, from its beginning again where it is over."""
    return [ids[i % len(ids)] for i in range(length)]
