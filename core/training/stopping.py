"""Ctrl+c while training: the step is finished and the state saved before the command ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

#: Signals that end a run.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_HEARD = "Finishing this step, then saving; once more ends at once and loses what came since the last save."


@dataclass
class Stop:
    """Whether an end was asked for, and by which signal."""

    number: int | None = None

    @property
    def asked(self) -> bool:
        return self.number is not None


@contextmanager
def stop_on_signals(say: Callable[[str], None]) -> Iterator[Stop]:
    """Within it the first signal only asks, which `say` hears; a second one ends at once, as it would outside.

    For the main thread. What was asked for is passed on at the end, to whoever listened before.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            _restore(before)
            signal.raise_signal(number)
        stop.number = number
        with suppress(OSError, RuntimeError):  # a terminal that is gone, or is being written to
            say(_HEARD)

    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, ask)
    try:
        yield stop
    finally:
        _restore(before)
    if stop.number is not None:
        signal.raise_signal(stop.number)


def _restore(before: dict[signal.Signals, signal._HANDLER]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
