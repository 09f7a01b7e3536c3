"""Choosing rounds by what happened in them: "miss, a<2, ms>5" means all of these."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from specmon.core.errors import UsageError
from specmon.core.events import Round
from specmon.core.metrics.acceptance import drafted_len
from specmon.core.metrics.spans import verify_ns

NS_PER_MS = 1_000_000

Test = Callable[[Round], bool]

WORDS: dict[str, Test] = {
    "miss": lambda round_: round_.miss is not None,
    "hit": lambda round_: round_.hit is not None,
    "late": lambda round_: round_.miss == "late",
    "rank": lambda round_: round_.miss == "rank",
}
FIGURES: dict[str, Callable[[Round], float]] = {
    "a": lambda round_: round_.accepted_len,
    "k": drafted_len,
    "ms": lambda round_: (round_.t1 - round_.t0) / NS_PER_MS,
    "verify": lambda round_: verify_ns(round_) / NS_PER_MS,
    "kv": lambda round_: round_.kv_len[0] if round_.kv_len else 0,
    "#": lambda round_: round_.index,
}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
HELP = "miss, hit, late, rank, or a k ms verify kv # with < > = and a number; commas mean and"

_FIGURE = re.compile(r"(a|k|ms|verify|kv|#)\s*(<=|>=|<|>|=)\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class RoundFilter:
    """Conditions as typed, and whether a round meets them all."""

    text: str
    tests: tuple[Test, ...]

    def __call__(self, round_: Round) -> bool:
        return all(test(round_) for test in self.tests)


def parse_filter(text: str) -> RoundFilter:
    """Read conditions separated by commas. Raises: UsageError for one that is none."""
    parts = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("There is no condition to filter by.", HELP)
    return RoundFilter(", ".join(parts), tuple(map(_test, parts)))


def _test(part: str) -> Test:
    if part in WORDS:
        return WORDS[part]
    match = _FIGURE.fullmatch(part)
    if match is None:
        raise UsageError(f"{part!r} is no condition.", HELP)
    name, comparison, number = match.groups()
    figure, holds, bound = FIGURES[name], COMPARISONS[comparison], float(number)
    return lambda round_: holds(figure(round_), bound)
