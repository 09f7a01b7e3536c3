"""Being told to end from outside: SIGTERM stops a command the way ctrl+c does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

EXIT_TERMINATED = 143


class _Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def terminable() -> Iterator[None]:
    """Within it SIGTERM raises KeyboardInterrupt, which leaves it as exit code 143. For the main thread."""
    previous = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    except _Terminated:
        raise typer.Exit(EXIT_TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> None:
    raise _Terminated
