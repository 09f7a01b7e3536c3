"""Painted lines that are freed as soon as they are painted over."""

from __future__ import annotations

from textual.cache import FIFOCache
from textual.strip import Strip


class _Forgets(FIFOCache[tuple[int, ...], list[Strip]]):
    """A cache that keeps nothing."""

    def set(self, key: tuple[int, ...], value: list[Strip]) -> None: ...

    __setitem__ = set


_FORGETS = _Forgets(1)


def without_cycles(strips: list[Strip]) -> list[Strip]:
    """The same strips, no longer keeping what they are cut into.

    A strip that is cut nowhere is its own only part, so Textual has it hold itself: some MB of garbage a minute, which
    only a full collection frees.
    """
    for strip in strips:
        strip._divide_cache = _FORGETS
    return strips
