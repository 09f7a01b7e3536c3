"""Bars and columns in eighths of a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specmon.tui.widgets.glyphs import Glyphs


def bar(fraction: float, cells: int, glyphs: Glyphs) -> str:
    """A horizontal bar of 0..1 of `cells` cells, without the rest; above zero it shows at least a sliver."""
    if cells <= 0 or fraction <= 0:
        return ""
    steps = len(glyphs.eighths) + 1
    filled = max(round(min(fraction, 1.0) * cells * steps), 1)
    whole, part = divmod(filled, steps)
    return glyphs.full * whole + (glyphs.eighths[part - 1] if part else "")


def column(fraction: float, rows: int, glyphs: Glyphs) -> list[str]:
    """A vertical bar of 0..1 of `rows` rows, top row first; anything above zero shows at least a sliver."""
    if rows <= 0:
        return []
    filled = round(min(max(fraction, 0.0), 1.0) * rows * 8)
    if fraction > 0:
        filled = max(filled, 1)
    whole, part = divmod(filled, 8)
    cells = [glyphs.levels[7]] * whole + ([glyphs.levels[part - 1]] if part else [])
    return list(reversed(cells + [" "] * (rows - len(cells))))


def nice_step(span: float, at_most: int, factors: Sequence[float] = (1.0, 2.0, 5.0)) -> float:
    """The smallest of `factors` × 10^n that covers `span` in at most `at_most` steps."""
    if span <= 0 or at_most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / at_most))
    return next(f * p for p in (power, power * 10) for f in factors if f * p * at_most >= span)
