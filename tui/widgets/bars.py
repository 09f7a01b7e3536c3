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


def stacked(parts: Sequence[int], cells: int) -> list[int]:
    """Cells of each part of one bar of `cells`: in proportion, the whole bar full, and above zero at least one each
    while there are as many cells as parts.
    """
    total = sum(parts)
    if total <= 0 or cells <= 0:
        return [0] * len(parts)
    sizes = [part * cells // total for part in parts]
    if cells >= len(parts):
        sizes = [max(size, int(part > 0)) for size, part in zip(sizes, parts, strict=True)]
    while (over := sum(sizes) - cells) > 0:
        sizes[sizes.index(max(sizes))] -= min(over, 1)
    by_rest = sorted(range(len(parts)), key=lambda i: -(parts[i] * cells % total))
    for i in by_rest[: cells - sum(sizes)]:
        sizes[i] += 1
    return sizes


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
