"""The one place events pass through: numbered by order alone, to the recorder first and then to the view."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from specmon.core.events import Event, Header, Prefill, Round, Turn, TurnEnd


class Sink(Protocol):
    """Takes an event and does not wait."""

    def __call__(self, event: Event) -> None: ...


class Stream:
    """Gives the clock and hands events from any thread to both sinks in one order.

    The clock counts ns since the stream was made, on the monotonic clock all processes of the machine share.
    """

    def __init__(self, *, record: Sink, show: Sink) -> None:
        self._record = record
        self._show = show
        self._lock = threading.Lock()
        self._start_ns = time.monotonic_ns()
        self.utc_start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.begun = False  # whether the `Header` is out

    def clock(self) -> int:
        """Time now (ns)."""
        return time.monotonic_ns() - self._start_ns

    def emit(self, event: Event) -> None:
        """Record and show an event. Raises ValueError for one that comes before the `Header`."""
        with self._lock:
            if not self.begun and not isinstance(event, Header):
                raise ValueError("the stream has not begun")
            self.begun = True
            self._record(event)
            self._show(event)


class OpenTurns:
    """Follows turns so that one which fails can be ended with true totals."""

    def __init__(self) -> None:
        self._totals: dict[tuple[int, int], list[int]] = {}  # (lane, turn) -> [tokens, rounds]

    def see(self, event: Event) -> None:
        """Follow an event that was emitted."""
        key = (event.lane, event.turn)
        if isinstance(event, Turn):
            self._totals[key] = [0, 0]
        elif isinstance(event, TurnEnd):
            self._totals.pop(key, None)
        elif isinstance(event, Prefill) and event.token_one is not None:
            self._totals[key][0] += 1
        elif isinstance(event, Round) and not event.discarded:
            self._totals[key][0] += len(event.emitted)
            self._totals[key][1] += 1

    def fail(self, error: str, *, clock: Callable[[], int]) -> list[TurnEnd]:
        """End every turn that is open."""
        ends = [
            TurnEnd(
                t=clock(),
                lane=lane,
                turn=turn,
                stop_reason="error",
                n_tokens=tokens,
                rounds=rounds,
                error=error,
            )
            for (lane, turn), (tokens, rounds) in self._totals.items()
        ]
        self._totals.clear()
        return ends
