"""ms/token over KV length, in windows that end with a round and divide by the tokens they truly hold."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core.events import Round

#: The window sizes (tokens) a view offers, and how many closed windows make the next larger one the better choice.
WINDOW_SIZES = (16, 64, 256, 1_024)
MANY_WINDOWS = 40


def fitting_window(n_tokens: int) -> int:
    """The smallest window size in which `n_tokens` make no more than a chart's worth of windows."""
    return next((size for size in WINDOW_SIZES if n_tokens <= size * MANY_WINDOWS), WINDOW_SIZES[-1])


@dataclass(frozen=True, kw_only=True)
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
    """Closed windows of at least `size` tokens; `extend` looks at each round once."""

    def __init__(self, size: int, kv_start: int) -> None:
        if size < 1:
            raise ValueError(f"a window holds at least 1 token, not {size}")
        self.closed: list[Window] = []
        self._size = size
        self._kv_start = kv_start
        self._seen = self._first = 0
        self._tokens = self._ns = self._total_tokens = self._total_ns = 0

    def extend(self, rounds: list[Round]) -> list[Window]:
        """Take in the rounds added since the last call and return all closed windows."""
        for position in range(self._seen, len(rounds)):
            self._add(position, rounds[position])
        self._seen = len(rounds)
        return self.closed

    def _add(self, position: int, round_: Round) -> None:
        self._tokens += len(round_.emitted)
        self._ns += round_.t1 - round_.t0
        self._total_tokens += len(round_.emitted)
        self._total_ns += round_.t1 - round_.t0
        if self._tokens < self._size:
            return
        self.closed.append(
            Window(
                first_round=self._first,
                last_round=position,
                n_tokens=self._tokens,
                ns=self._ns,
                kv_len=round_.kv_len[0] if round_.kv_len else self._kv_start + self._total_tokens,
                total_tokens=self._total_tokens,
                total_ns=self._total_ns,
            )
        )
        self._first, self._tokens, self._ns = position + 1, 0, 0
