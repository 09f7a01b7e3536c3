"""ms/token over KV length, in windows that end with a round and divide by the tokens they truly hold."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from specmon.core.events import Round

#: The window sizes (tokens) a view offers, and how many closed windows make the next larger one the better choice.
WINDOW_SIZES = (16, 64, 256, 1_024)
MANY_WINDOWS = 40


def fitting_window(n_tokens: int) -> int:
    """The smallest window size in which `n_tokens` make no more than a chart's worth of windows."""
    return next((size for size in WINDOW_SIZES if n_tokens <= size * MANY_WINDOWS), WINDOW_SIZES[-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Rounds `first_round` to `last_round` (positions in the turn's rounds, inclusive) and what they took.

    `kv_len` is the KV position where the window closed; `total_*` count from the turn's first round to there.
    """

    first_round: int
    last_round: int
    n_tokens: int
    ns: int
    kv_len: int
    total_tokens: int
    total_ns: int

    @property
    def ms_per_token(self) -> float:
        """Round time of the window ÷ its tokens."""
        return self.ns / (1_000_000 * self.n_tokens)

    @property
    def cumulative_ms_per_token(self) -> float:
        """Round time since the turn's first round ÷ tokens since then."""
        return self.total_ns / (1_000_000 * self.total_tokens)

    @property
    def tokens_per_round(self) -> float:
        """Tokens ÷ rounds of the window."""
        return self.n_tokens / (self.last_round - self.first_round + 1)


class WindowSeries:
    """Closed windows of at least `size` tokens; `extend` looks for the end of each, not at every round."""

    def __init__(self, size: int, kv_start: int) -> None:
        if size < 1:
            raise ValueError(f"a window holds at least 1 token, not {size}")
        self.closed: list[Window] = []
        self._size = size
        self._kv_start = kv_start
        self._first = 0  # round with which the open window begins

    def extend(
        self, rounds: Sequence[Round], tokens_by_round: Sequence[int], clock_ns: Sequence[int]
    ) -> list[Window]:
        """Close what can be closed and return all closed windows.

        `tokens_by_round` and `clock_ns` hold, for each round, the tokens and the lane clock at its end.
        """
        before = tokens_by_round[0] - len(rounds[0].emitted) if rounds else 0  # the first round
        while self._first < len(rounds):
            start, start_ns = before, 0
            if self._first:
                start, start_ns = tokens_by_round[self._first - 1], clock_ns[self._first - 1]
            last = bisect_left(tokens_by_round, start + self._size, self._first)
            if last == len(rounds):
                break
            total = tokens_by_round[last] - before
            kv_len = rounds[last].kv_len
            self.closed.append(
                Window(
                    first_round=self._first,
                    last_round=last,
                    n_tokens=tokens_by_round[last] - start,
                    ns=clock_ns[last] - start_ns,
                    kv_len=kv_len[0] if kv_len else self._kv_start + total,
                    total_tokens=total,
                    total_ns=clock_ns[last],
                )
            )
            self._first = last + 1
        return self.closed
