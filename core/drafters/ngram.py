"""N-gram drafter (prompt lookup): what followed the text's last tokens the last times they occurred.

Source: Saxena 2023, "Prompt Lookup Decoding"; here the generated text is searched too, newest match first.
"""

from __future__ import annotations

from collections.abc import Sequence

from specmon.core.drafters.base import Proposal
from specmon.core.drafters.text_lookup import TextDrafter

#: Places that are looked at for other followers: in text that repeats one thing there are no more, however far one looks.
_LOOK_BACK = 256


class NgramDrafter(TextDrafter):
    """Looks up the longest suffix of `longest` … `shortest` tokens."""

    def __init__(self, *, longest: int = 4, shortest: int = 2) -> None:
        super().__init__(kind="ngram", label="n-gram")
        self._lengths = range(longest, shortest - 1, -1)
        self._after: dict[tuple[int, ...], list[int]] = {}  # n-gram -> positions just after it, in order

    def _clear(self) -> None:
        self._after.clear()

    def _index(self, new: Sequence[int]) -> None:
        """Add the n-grams that end before each new position."""
        for position in range(max(len(self._context) - len(new), 1), len(self._context)):
            for n in self._lengths:
                if n <= position:
                    key = tuple(self._context[position - n : position])
                    self._after.setdefault(key, []).append(position)

    def _followers(self, ahead: Sequence[int], count: int) -> list[tuple[int, float | None]]:
        """Tokens that followed the longest known suffix, newest first, each once."""
        found: dict[int, None] = {}
        for position in reversed(self._positions(ahead)[-_LOOK_BACK:]):
            if len(found) == count:
                break
            found[self._context[position]] = None
        return [(token, None) for token in found]

    def _continue(self, ahead: Sequence[int], count: int) -> Proposal:
        """One look-up a token."""
        out: list[int] = []
        while len(out) < count and (positions := self._positions([*ahead, *out])):
            out.append(self._context[positions[-1]])
        return Proposal(tokens=tuple(out))

    def _positions(self, ahead: Sequence[int]) -> list[int]:
        """Just after each place where the longest known suffix of context + ahead stands."""
        text = [*self._context[-max(self._lengths) :], *ahead]
        for n in self._lengths:
            positions = self._after.get(tuple(text[-n:])) if len(text) >= n else None
            if positions:
                return positions
        return []
