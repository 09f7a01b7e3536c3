"""Reading a recording while it grows, from a file or a pipe."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import SCHEMA, Event
from specmon.core.session.frames import (
    MAX_MARK_BYTES,
    DamagedFrame,
    FrameInfo,
    decompress,
    find_mark,
    parse_mark,
)
from specmon.core.session.header import not_a_session, parse_header
from specmon.core.session.lines import FrameReport, damage_gap, read_lines
from specmon.core.session.target import reason_of

_CHUNK_BYTES = 1 << 20


def follow(
    path: str | os.PathLike[str], *, stdin: int = 0, warn: Callable[[str], object] = lambda text: None
) -> Iterator[Event | None]:
    """Yield the events of a recording as they arrive, and None whenever there is nothing new yet.

    Never waits: after a None the caller decides when to ask again. Ends where the recording was closed or the
    pipe ended, and where its file was cut, replaced or removed.

    Args:
        path: the file, or "-" for the pipe `stdin` (a file descriptor).
        warn: told in a sentence what became of the file where that ends it before the recording was closed.
    Raises: UsageError where it is no recording; SpecmonError where its schema is too new or it cannot be
    read.
    """
    name = os.fspath(path)
    stream = FrameStream("standard input" if name == "-" else name)
    if name == "-":
        yield from _events(stream, lambda: _read_pipe(stdin))
        return
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {reason_of(error)}.") from None
    try:
        yield from _events(stream, lambda: _read_growing(fd, Path(name)))
        if not stream.is_ended and (lost := _lost(fd, Path(name))):
            warn(f"{Path(name).name} {lost}: showing what was read.")
    finally:
        os.close(fd)


class FrameStream:
    """Cuts bytes as they come into frames and gives their events; damaged frames become a `Gap`.

    Args:
        name: what to call the source in errors.
    """

    def __init__(self, name: str) -> None:
        self.is_ended = False
        self._name = name
        self._buffer = bytearray()
        self._schema: str | None = None
        self._expected = 0  # number of the next event

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events of the frames that `data` completes. Raises SpecmonError as `follow` does."""
        self._buffer += data
        while self._buffer and not self.is_ended:
            try:
                info = parse_mark(bytes(self._buffer[:MAX_MARK_BYTES]), 0)
            except DamagedFrame:
                self._skip_damage()
                continue
            if info is None or info.end > len(self._buffer):
                return
            frame = bytes(self._buffer[info.data_offset : info.end])
            del self._buffer[: info.end]
            self.is_ended = info.is_end
            yield from self._frame_events(info, frame)

    def _skip_damage(self) -> None:
        if self._schema is None:
            raise not_a_session(self._name)
        position = find_mark(self._buffer, 1)
        keep_from = position if position >= 0 else max(1, len(self._buffer) - 11)
        del self._buffer[:keep_from]

    def _frame_events(self, info: FrameInfo, frame: bytes) -> Iterator[Event]:
        if info.first_event > self._expected and self._schema is not None:
            yield damage_gap(info.t, info.first_event - self._expected)
        self._expected = info.first_event + info.events
        if info.is_end:
            return
        try:
            lines = decompress(frame, info.raw_bytes).split(b"\n")[:-1]
        except DamagedFrame as damage:
            if self._schema is None:
                raise SpecmonError(f"{self._name} is damaged at its start: {damage}.") from None
            yield damage_gap(info.t, info.events)
            return
        if self._schema is None:
            self._schema = parse_header(self._name, lines[0] if lines else b"").schema
        yield from read_lines(lines, self._schema or SCHEMA, FrameReport())


def _events(stream: FrameStream, read: Callable[[], bytes | None]) -> Iterator[Event | None]:
    while not stream.is_ended:
        try:
            data = read()
        except OSError as error:
            raise SpecmonError(f"The recording cannot be read on: {reason_of(error)}.") from None
        if data is None:
            return
        if data:
            yield from stream.feed(data)
        else:
            yield None


def _read_pipe(fd: int) -> bytes | None:
    """What is there now, b"" for nothing yet, None at the end."""
    ready, _, _ = select.select([fd], [], [], 0)
    if not ready:
        return b""
    return os.read(fd, _CHUNK_BYTES) or None


def _read_growing(fd: int, path: Path) -> bytes | None:
    """What is new, b"" for nothing yet, None where no more can come."""
    data = os.read(fd, _CHUNK_BYTES)
    if data:
        return data
    return os.read(fd, _CHUNK_BYTES) or None if _lost(fd, path) else b""


def _lost(fd: int, path: Path) -> str:
    """What became of the file that is read, "" while it is in its place and whole."""
    try:
        found = path.stat()
    except OSError:
        return "is gone"
    if not os.path.samestat(found, os.fstat(fd)):
        return "was replaced"
    return "was cut" if found.st_size < os.lseek(fd, 0, os.SEEK_CUR) else ""
