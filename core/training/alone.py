"""One run at a time in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specmon.core.errors import UsageError
from specmon.core.scratch import locked


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Keep a run's folder to this process. Raises: UsageError where another has it, or it cannot be written."""

    def refuse() -> None:
        raise UsageError(f"Another run is going on in {out}.", "Wait for its end, or give another folder.")

    lock = out / ".lock"
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.touch()
    except OSError as refused:
        raise UsageError(f"{out} cannot be written: {refused.strerror}.", "Give another folder.") from refused
    with locked(lock, refuse):
        yield
