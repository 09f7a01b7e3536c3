"""How far long work is, on stderr: one line rewritten in place on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time

from specmon.tui.commands.output import say

REWRITE_S, REPEAT_S = 0.1, 30.0


class BenchProgress:
    """Counts what is done. `begin` starts a stretch of `total` things, `done` says that one more is finished."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._what, self._things, self._n, self._total, self._n_before = "", "", 0, 0, 0
        self._started = self._shown_at = time.monotonic()
        self._line_is_open = False

    def begin(self, what: str, total: int, things: str, *, done: int = 0) -> None:
        """A new stretch of work starts, `done` of it finished before."""
        self.close()
        self._what, self._things, self._n, self._total, self._n_before = what, things, done, total, done
        self._started, self._shown_at = time.monotonic(), -REPEAT_S
        self._show()

    def done(self, count: int = 1) -> None:
        """So many more are finished."""
        self._n += count
        self._show()

    def say(self, line: str) -> None:
        """A line for the user that stays."""
        self.close()
        say(line)

    def close(self) -> None:
        """End a line that was begun."""
        if self._line_is_open:
            print(file=sys.stderr, flush=True)
            self._line_is_open = False

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown_at < (REWRITE_S if self._terminal else REPEAT_S) and self._n < self._total:
            return
        self._shown_at = now
        left = eta(now - self._started, self._n - self._n_before, self._total - self._n_before)
        text = f"{self._what}: {self._n} of {self._total} {self._things}{left}"
        if self._terminal:
            print(f"\r\x1b[Kspecmon: {text}", end="", file=sys.stderr, flush=True)
            self._line_is_open = True
        else:
            say(text)


def eta(elapsed_s: float, n_done: int, total: int) -> str:
    """ ", about 3 min left", from the mean so far; empty where nothing is known or left."""
    if not 0 < n_done < total:
        return ""
    left_s = elapsed_s / n_done * (total - n_done)
    return f", about {left_s:.0f} s left" if left_s < 90 else f", about {left_s / 60:.0f} min left"
