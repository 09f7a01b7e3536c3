"""Spools: created locked, so that one whose lock is free was left behind and can be recovered."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from specmon.core.errors import SpecmonError
from specmon.core.events import Header, Lane, Vocabulary
from specmon.core.session.frames import pack_end
from specmon.core.session.index import FrameIndex
from specmon.core.session.keep import Keeper
from specmon.core.session.reader import SessionReader
from specmon.core.session.target import NamingEvents, reason_of

_SUFFIX = ".spool"


class Recoverable(msgspec.Struct, frozen=True, kw_only=True):
    """A recording that a process left behind: `pid` wrote it, last at `modified_s` (Unix time)."""

    path: Path
    pid: int
    bytes: int
    modified_s: float


def create_spool(state_dir: Path) -> tuple[Path, int]:
    """Create a private spool, locked as long as the file descriptor given is open. Raises OSError."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = 0
    while True:
        path = state_dir / f"{os.getpid()}-{number}{_SUFFIX}"
        unlocked = path.with_suffix(".new")
        number += 1
        if path.exists():
            continue
        try:
            fd = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(path)
        return path, fd


def list_recoverable(state_dir: Path) -> list[Recoverable]:
    """Find the spools in `state_dir` that hold events and whose process is gone, the newest first."""
    found = []
    for path in state_dir.glob(f"*{_SUFFIX}"):
        try:
            fd = _lock(path)
            stat = os.fstat(fd)
            os.close(fd)
        except OSError:
            continue
        pid = path.stem.partition("-")[0]
        if stat.st_size and pid.isdigit():
            found.append(Recoverable(path=path, pid=int(pid), bytes=stat.st_size, modified_s=stat.st_mtime))
    return sorted(found, key=lambda spool: spool.modified_s, reverse=True)


def recover(spool: Path, path: Path, *, force: bool = False) -> Path:
    """Make a recording of a spool left behind, at `path` or in that folder, and delete the spool.

    Returns: where the recording is.
    Raises: UsageError, SpecmonError where the spool is in use or holds nothing, or `path` cannot be
    written; the
        spool stays then.
    """
    try:
        fd = _lock(spool)
    except OSError as error:
        raise SpecmonError(f"{spool} cannot be recovered: {reason_of(error)}.") from None
    try:
        index = FrameIndex.build(fd)
        if not index.frames:
            raise SpecmonError(f"{spool} holds no events.")
        keeper = Keeper(path, force=force)
        if keeper.needs_name:
            keeper.name(_naming_of(spool).path_in(path))
        last = index.frames[-1]
        end_mark = pack_end(last.first_event + last.events, last.rounds_before + last.rounds, last.t)
        if not keeper.finish(fd, last.end, end_mark):
            raise SpecmonError(keeper.error or f"{path} cannot be written.")
        spool.unlink(missing_ok=True)
    finally:
        os.close(fd)
    return keeper.path


def discard(spool: Path) -> None:
    """Delete a spool left behind. Raises SpecmonError where it is in use or cannot be deleted."""
    try:
        os.close(_lock(spool))
        spool.unlink()
    except OSError as error:
        raise SpecmonError(f"{spool} cannot be deleted: {reason_of(error)}.") from None


def _lock(spool: Path) -> int:
    """Open a spool and take its lock. Raises OSError, where another process has it BlockingIOError."""
    fd = os.open(spool, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _naming_of(spool: Path) -> NamingEvents:
    """What names the file: the header and lanes at the spool's start."""
    naming = NamingEvents()
    with SessionReader.open(spool) as reader:
        for event in reader.events():
            if not isinstance(event, Header | Lane | Vocabulary):
                break
            naming.see(event)
    return naming
