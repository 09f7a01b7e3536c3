"""Figures in words: the few ways in which sentences print a number."""

from __future__ import annotations


def ms(ns: float) -> str:
    """Nanoseconds as milliseconds with three or so digits, without the unit."""
    value = ns / 1_000_000
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3f}"


def launches(mean: float) -> str:
    """What the host launches, as "1 host launch" or "412 host launches"."""
    shown = f"{mean:,.0f}"
    return f"{shown} host launch{'' if shown == '1' else 'es'}"


def percent(part: float, whole: float) -> str:
    """`part` ÷ `whole` as "92 %"."""
    return f"{100 * part / whole:.0f} %" if whole else "n/a"
