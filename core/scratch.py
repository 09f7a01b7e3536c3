"""Folders and files that one process at a time works on."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `lock` against other processes; the system lets go of it when a process ends, however it ends.

    Args:
        waiting: called once where another process holds it, which is then waited for.
    """
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch_folder(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """`folder`, empty and this process's alone, until it is removed; what a killed process left in it goes first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f".{folder.name}.lock"), waiting):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
