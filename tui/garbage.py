"""When Python looks for garbage in cycles.

A full collection walks all of Textual and everything a ledger keeps, for longer than a frame, and frees little: events
hold no cycles, closed screens do. So it waits for a moment at rest, or for half a minute.
"""

from __future__ import annotations

import gc

from specmon.core.garbage import set_aside

AT_REST_EVERY_S, LATEST_S = 10.0, 30.0
_NEVER = 1 << 30


class Garbage:
    """Decides about full collections once `take_over` was called; the younger generations stay Python's."""

    def __init__(self) -> None:
        self._collected_at: float | None = None

    def take_over(self, now: float) -> None:
        """From `now` (seconds) on; what is there already is never looked at again."""
        set_aside()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        self._collected_at = now

    def drawn(self, now: float, *, at_rest: bool) -> None:
        """A screen was just drawn; `at_rest`: nothing had changed."""
        if self._collected_at is None:
            return
        if now - self._collected_at >= (AT_REST_EVERY_S if at_rest else LATEST_S):
            gc.collect()
            self._collected_at = now
