"""Being told to end from outside: SIGTERM, and SIGHUP of a terminal that closes, end a command in order."""

from __future__ import annotations

import errno
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


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

    with _handled(end):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in heeded()}
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
