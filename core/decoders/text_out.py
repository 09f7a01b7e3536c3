"""Tokens out as text: whole characters only, stop strings withheld and cut."""

from __future__ import annotations

from collections.abc import Iterable

from specmon.core.models.tokenizer import Tokenizer


class TextOut:
    """Streams one turn's text. What may be the beginning of a stop string is held back until it is known."""

    def __init__(self, tokenizer: Tokenizer, stop_strings: tuple[str, ...]) -> None:
        self._tokenizer = tokenizer
        self._stream = tokenizer.stream()
        self._stops = tuple(stop for stop in stop_strings if stop)
        self._held = ""
        self._known: set[int] = set()
        self.stopped = False

    @property
    def may_stop(self) -> bool:
        """Whether there is a stop string to look for."""
        return bool(self._stops)

    def push(self, token_id: int) -> str:
        """The text that token releases. Sets `stopped` when it completes a stop string, which is cut off."""
        self._held += self._stream.push(token_id)
        cut = min((at for stop in self._stops if (at := self._held.find(stop)) >= 0), default=None)
        if cut is not None:
            self.stopped = True
            out, self._held = self._held[:cut], ""
            return out
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return out

    def finish(self) -> str:
        """What is left at the end of the turn."""
        if self.stopped:
            return ""
        return self._held + self._stream.finish()

    def new_pieces(self, token_ids: Iterable[int]) -> dict[int, str]:
        """Text of the ids this turn has not named before."""
        new = {i for i in token_ids if i not in self._known}
        self._known |= new
        return {i: self._tokenizer.piece(i) for i in sorted(new)}


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
