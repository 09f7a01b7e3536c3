"""Being told to end: SIGTERM, SIGHUP of a terminal that closes, and ctrl+c once it may be impatient, in order."""

from __future__ import annotations

import errno
import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 5.0  #: how long what is being kept is not broken off

Handler = Callable[[int, FrameType | None], object]


@dataclass
class Ending:
    """Which signal told the command to end, None as long as none did."""

    signal: int | None = None

    @property
    def exit_code(self) -> int | None:
        """128 + the signal's number, as a shell gives it: 143 for SIGTERM, 129 for SIGHUP."""
        return None if self.signal is None else 128 + self.signal


class _Ended(KeyboardInterrupt):
    """A signal came; where ctrl+c is listened to it does the same."""


@contextmanager
def terminable(ending: Ending | None = None) -> Iterator[None]:
    """Within it such a signal raises KeyboardInterrupt, after `ending` was told. For the main thread."""
    told = ending or Ending()

    def end(number: int, frame: FrameType | None) -> None:
        told.signal = number
        let_go_of_lost_terminal()
        raise _Ended

    with _handled(end, heeded()):
        yield


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Within it the first ctrl+c or ending is heard, and for PATIENCE_S no further one, so that its work is wrapped up."""
    before, heard_at = _own_handlers(), None

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard_at
        now = time.monotonic()
        if heard_at is None or now - heard_at >= PATIENCE_S:
            heard_at = now if heard_at is None else heard_at
            before[number](number, frame)

    with _handled(hear, before):
        yield


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Within it ctrl+c and endings wait for its end, PATIENCE_S at most, so that what is written is whole."""
    before, held = _own_handlers(), None

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal held
        now = time.monotonic()
        if held is None:
            held = number, now
        elif now - held[1] >= PATIENCE_S:
            before[number](number, frame)

    with _handled(hold, before):
        yield
    if held is not None:
        signal.raise_signal(held[0])


def _own_handlers() -> dict[int, Handler]:
    """What ctrl+c and each ending do now, but for those that are ignored or left to the system."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


@contextmanager
def _handled(handler: Handler, numbers: Iterable[int]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous or signal.SIG_DFL)


def heeded() -> list[signal.Signals]:
    """The signals that end a command; what was ignored at the start, as `nohup` does, stays ignored."""
    return [number for number in ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]


def let_go_of_lost_terminal() -> None:
    """Point the standard streams that lead to a terminal which is gone at nothing, so that writing cannot fail."""
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError):  # a stream without a file
            if stream is not None:
                _let_go(stream.fileno())


def _let_go(fd: int) -> None:
    try:
        termios.tcgetattr(fd)
    except termios.error as error:
        if error.args[0] == errno.EIO:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, fd)
            os.close(nothing)
