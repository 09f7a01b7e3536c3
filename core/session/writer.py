"""Writing a `.session`: frames as they fill, and one compact file when it is closed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from specmon.core.errors import SpecmonError
from specmon.core.events import Event, Header, Lane, Round
from specmon.core.session.build import FrameBuilder
from specmon.core.session.compact import compact
from specmon.core.session.frames import pack_end
from specmon.core.session.target import NamingEvents, check_target, create_private, reason_of

FRAME_EVENTS = 100
FRAME_AGE_NS = 250_000_000
FRAME_RAW_BYTES = 4 << 20

Branches = Literal["full", "keys"]

_log = logging.getLogger(__name__)


class SessionWriter:
    """Writes events to a private file in frames of at most 100 events or 250 ms.

    Args:
        path: a new file, or a folder, in which it is named `date_decoder_target.session` once the lanes are
        known.
        force: replace a file that is there.
        branches: "keys" leaves out the tokens of branches.
        clock: monotonic ns.
    Raises: UsageError where `path` cannot be used; SpecmonError where writing fails.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        branches: Branches = "full",
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.path = Path(path)
        self.bytes_written = 0
        self._force = force
        self._branches = branches
        self._clock = clock
        self._builder = FrameBuilder()
        self._frame_started = 0
        self._naming = NamingEvents()
        self._started = False
        self._closed = False
        check_target(self.path, force=force)
        self._in_folder = self.path.is_dir()
        self._fd = -1 if self._in_folder else create_private(self.path, force=force)

    def write(self, event: Event) -> None:
        """Add one event, the `Header` first. Raises ValueError for a wrong call."""
        if self._closed:
            raise ValueError("the session is closed")
        if not self._started and not isinstance(event, Header):
            raise ValueError("a session starts with its Header")
        if self._started and self._in_folder and self._fd < 0 and not isinstance(event, Lane):
            self._create_in_folder()
        self._started = True
        self._naming.see(event)
        now = self._clock()
        if not self._builder.events:
            self._frame_started = now
        self._builder.add(keys_only(event) if self._branches == "keys" else event)
        if is_full(self._builder):
            self.flush()
        else:
            self.flush_if_due(now)

    def flush_if_due(self, now_ns: int) -> None:
        """Write what is pending if its oldest event has waited 250 ms."""
        if self._builder.events and now_ns - self._frame_started >= FRAME_AGE_NS:
            self.flush()

    def flush(self) -> None:
        """Write what is pending as one frame."""
        if not self._builder.events:
            return
        if self._fd < 0:
            self._create_in_folder()
        self._append(self._builder.pack())

    def close(self) -> None:
        """Write what is pending and the end mark, then rewrite small frames as large ones.

        A failed rewrite is logged and leaves the file as recorded, which is whole.
        """
        if self._closed:
            return
        try:
            self.flush()
            if self._fd >= 0:
                builder = self._builder
                self._append(pack_end(builder.events_packed, builder.rounds_packed, builder.last_t))
        finally:
            self._closed = True
            if self._fd >= 0:
                os.close(self._fd)
        if self._fd >= 0 and self._started:
            try:
                self.bytes_written = compact(self.path)
            except SpecmonError as error:
                _log.warning("%s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _create_in_folder(self) -> None:
        self.path = self._naming.path_in(self.path)
        self._fd = create_private(self.path)

    def _append(self, chunk: bytes) -> None:
        try:
            write_all(self._fd, chunk, self.bytes_written)
        except OSError as error:
            raise SpecmonError(f"{self.path} cannot be written: {reason_of(error)}.") from None
        self.bytes_written += len(chunk)


def is_full(builder: FrameBuilder) -> bool:
    """Say whether a frame holds all that one frame may while recording."""
    return builder.events >= FRAME_EVENTS or builder.raw_bytes >= FRAME_RAW_BYTES


def keys_only(event: Event) -> Event:
    """Leave out the tokens of a round's branches; outcome, rank, probability and readiness stay."""
    if not isinstance(event, Round) or not event.branches:
        return event
    branches = tuple([msgspec.structs.replace(branch, tokens=()) for branch in event.branches])
    return msgspec.structs.replace(event, branches=branches)


def write_all(fd: int, chunk: bytes, offset: int) -> None:
    """Write `chunk` at `offset`, or leave the file as long as it was. Raises OSError."""
    view, at = memoryview(chunk), offset
    try:
        while view:
            written = os.pwrite(fd, view, at)
            view, at = view[written:], at + written
    except OSError:
        os.ftruncate(fd, offset)
        raise
