"""Whole numbers as they are typed: the one place that reads and bounds them."""

from __future__ import annotations

from specmon.core.errors import UsageError

_DIGITS = 18  # always fit into the 64 bits that the engine is told a number in


def whole_number(text: str) -> int | None:
    """The number 0, 1, … that `text` writes; None where it writes none, or has more than 18 digits."""
    word = text.strip()
    return int(word) if word.isdecimal() and len(word) <= _DIGITS else None


def bounded(number: int, option: str, least: int | None = None) -> int:
    """`number`. Raises: UsageError if it is less than `least`, or does not fit into 64 bits."""
    if not -(2**63) <= number < 2**64:
        raise UsageError(f"{option} does not fit into 64 bits.")
    if least is not None and number < least:
        raise UsageError(f"{option} is {number}, but it must be {least} or more.")
    return number
