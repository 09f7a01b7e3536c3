"""A passage: memory through which one process hands another rows of numbers, a piece at a time.

For a prompt's features: many megabytes, which a pipe would copy and cut up on the host. Both sides look at two counters in
the memory itself: pieces put, pieces taken. Every wait is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from specmon.core.errors import SpecmonError

PIECE = 512  # rows
_PUT, _TAKEN = 0, 8  # int64 words, on lines of their own
_HEAD = 16
_CHECK_S = 0.25
_LIMIT_S = 30.0


def passage_words(n_features: int) -> int:
    """int64 words a passage needs for rows of `n_features` numbers."""
    return _HEAD + PIECE * n_features // 2 + 1


class Passage:
    """One end, for rows [N, n_features] fp32. Memory: int64, all zeros at first; the two processes share it."""

    def __init__(self, memory: Tensor, n_features: int) -> None:
        self._counters = memory[:_HEAD].numpy()
        n_numbers = PIECE * n_features
        self._piece = memory[_HEAD:].view(torch.float32)[:n_numbers].view(PIECE, n_features)

    def put(self, rows: Tensor, check: Callable[[], None]) -> None:
        """Hand over all of `rows`, whose number the other side knows; returns when the last piece lies there.

        `check` is called now and then while it waits. Raises: what `check` does; SpecmonError where nothing is taken.
        """
        for piece in torch.split(rows, PIECE):
            self._wait(lambda: self._counters[_TAKEN] == self._counters[_PUT], check)
            self._piece[: len(piece)].copy_(piece)  # from a device: waits for the copy
            self._counters[_PUT] += 1

    def take(self, n_rows: int, device: torch.device | str, check: Callable[[], None]) -> Tensor:
        """Take the next `n_rows` rows over [n_rows, n_features], onto `device`; as `put` waits and raises."""
        rows = torch.empty(n_rows, self._piece.shape[1], device=device)
        for piece in torch.split(rows, PIECE):
            self._wait(lambda: self._counters[_PUT] > self._counters[_TAKEN], check)
            piece.copy_(self._piece[: len(piece)])
            self._counters[_TAKEN] += 1
        return rows

    def reset(self) -> None:
        """Begin anew, when the other side is another process than before."""
        self._counters[_PUT] = self._counters[_TAKEN] = 0

    def _wait(self, over: Callable[[], bool], check: Callable[[], None]) -> None:
        now = time.monotonic()
        check_at, end = now + _CHECK_S, now + _LIMIT_S
        while not over():
            now = time.monotonic()
            if now > check_at:
                check()
                check_at = now + _CHECK_S
            if now > end:
                raise SpecmonError(f"Features were not handed over for {_LIMIT_S:.0f} s.")
