"""The benchmark prompts: data in `prompts.toml`, also offered by the monitor's prompt library."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec


class BenchPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One prompt. Things are tuned on the "tuning" set only; figures come from the "evaluation" set."""

    name: str
    set: Literal["tuning", "evaluation"]
    kind: Literal["code", "math", "prose"]
    length: Literal["short", "long"]
    text: str


class _File(msgspec.Struct, frozen=True):
    prompt: tuple[BenchPrompt, ...]


@cache
def bench_prompts() -> tuple[BenchPrompt, ...]:
    """All of them, those for tuning first."""
    data = files(__package__).joinpath("prompts.toml").read_bytes()
    return msgspec.toml.decode(data, type=_File).prompt
