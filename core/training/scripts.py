"""What a target is made to read before it writes freely: beginnings of conversations, and what stands before an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import msgspec

from specmon.core.errors import UsageError
from specmon.core.models.tokenizer import Tokenizer
from specmon.core.training.config import LONG_ROWS, TextSettings
from specmon.core.training.prompts import read_prompts, sha256_of

#: Tokens a question has at least.
SHORTEST_QUESTION = 4

#: Tokens of an answer that a row must have room for behind a given prompt.
_LEAST_ANSWER = 16


class Openings(msgspec.Struct, frozen=True):
    """How messages begin that the target writes itself."""

    short: tuple[str, ...]
    long: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Script:
    """How a row of `row_tokens` is filled with conversations.

    Each begins with one of `first` (at the row's start) or `later`. With `asks` the target then writes the message itself:
    at the row's start it has a number of tokens drawn from `least` at least, elsewhere SHORTEST_QUESTION, and at most
    `slack` more; `before_answer` follows it. An answer has at most `most_answer` tokens.
    """

    row_tokens: int
    first: tuple[tuple[int, ...], ...]
    later: tuple[tuple[int, ...], ...]
    asks: bool
    least: tuple[int, int]
    slack: int
    most_answer: int
    before_answer: tuple[int, ...]
    ends: tuple[int, ...]


@cache
def openings() -> Openings:
    return msgspec.toml.decode(files(__package__).joinpath("openings.toml").read_bytes(), type=Openings)


def scripts_of(settings: TextSettings, tokenizer: Tokenizer, context_length: int) -> tuple[Script, ...]:
    """The kinds of rows to write: short and long questions of the target's own, or the prompts given.

    Raises: UsageError where the target has no chat template to ask itself by, or the prompts cannot be read or do not fit.
    """
    short = min(settings.row_tokens, context_length)
    long = min(LONG_ROWS * settings.row_tokens, context_length)
    if not tokenizer.eos_ids:
        raise UsageError(f"{settings.target} has no token that ends an answer.", "Choose another target.")
    whole = Script(
        row_tokens=short,
        first=(),
        later=(),
        asks=True,
        least=(SHORTEST_QUESTION, SHORTEST_QUESTION),
        slack=short // 5,
        most_answer=max(_LEAST_ANSWER, short * 4 // 5),
        before_answer=(),
        ends=tokenizer.eos_ids,
    )
    if settings.prompts:
        prompts = read_prompts(settings.prompts)
        if settings.prompts_sha256 not in ("", sha256_of(prompts)):
            raise UsageError(
                f"The prompts in {settings.prompts} are others than when the run was begun.",
                "Put them back, or begin a run in another --out with another --data.",
            )
        given = [tuple(tokenizer.encode_chat([("user", text)])) for text in prompts]
        row_tokens = short if all(2 * len(ids) <= short for ids in given) else long
        longest = max(map(len, given))
        if longest + _LEAST_ANSWER > row_tokens:
            raise UsageError(
                f"A prompt of {settings.prompts} has {longest} tokens, which leaves no room for an answer in {row_tokens}.",
                "Give a larger --row-tokens, or leave it out.",
            )
        first = tuple(given)
        return (replace(whole, row_tokens=row_tokens, first=first, later=first, asks=False),)
    if not tokenizer.template:
        raise UsageError(
            f"{settings.target} has no chat template to ask itself questions by.", "Give --prompts FILE."
        )
    before, between = _around_message(tokenizer)
    begins, long_begins = (
        tuple(before + _plain(tokenizer, text) for text in texts)
        for texts in (openings().short, openings().long)
    )
    own = replace(whole, first=begins, later=begins, before_answer=between)
    return own, replace(own, row_tokens=long, first=long_begins, least=(long // 6, long * 2 // 3))


def _around_message(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The template's tokens before a user's message, and from its end to the answer."""
    one, other = (tokenizer.encode_chat([("user", text)]) for text in ("a", "0"))
    before = _common(one, other)
    between = _common(one[::-1], other[::-1])[::-1]
    return before, between


def _common(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    for n, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return tuple(one[:n])
    return tuple(one[: min(len(one), len(other))])


def _plain(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.backend.encode(text, add_special_tokens=False).ids)
