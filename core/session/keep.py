"""Keeping a recording: a copy that trails the spool byte for byte and is compacted when it ends."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from specmon.core.errors import SpecmonError
from specmon.core.session.compact import compact
from specmon.core.session.target import check_target, create_private, reason_of
from specmon.core.session.writer import write_all

_COPY_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class Keeper:
    """Copies a spool to the file the user asked for. A failed copy is tried again at the next `catch_up`.

    Args:
        path: a new file or a folder; in a folder `name_in` names the file.
    Raises: UsageError, SpecmonError where the file cannot be created.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        check_target(path, force=force)
        self.path = path
        self.error: str | None = None
        self.bytes_copied = 0
        self.needs_name = path.is_dir()
        self._fd = -1 if self.needs_name else create_private(path, force=force)

    def name(self, path: Path) -> None:
        """Create the file of a keeper that was given a folder. Raises SpecmonError."""
        self._fd = create_private(path)
        self.path = path
        self.needs_name = False

    def catch_up(self, spool: int, end: int) -> bool:
        """Copy what the spool (a file descriptor) holds up to byte `end`; where that fails set `error`."""
        try:
            while self.bytes_copied < end:
                chunk = os.pread(spool, min(_COPY_BYTES, end - self.bytes_copied), self.bytes_copied)
                if not chunk:
                    break
                write_all(self._fd, chunk, self.bytes_copied)
                self.bytes_copied += len(chunk)
        except OSError as error:
            self.error = f"{self.path} cannot be written: {reason_of(error)}."
            return False
        self.error = None
        return True

    def discard(self) -> None:
        """Delete the file."""
        if self._fd >= 0:
            os.close(self._fd)
            with contextlib.suppress(OSError):
                self.path.unlink()

    def finish(self, spool: int, end: int, end_mark: bytes) -> bool:
        """Copy the rest, mark the end and compact the file; False where the copy is not whole."""
        if self._fd < 0:
            return False
        whole = self.catch_up(spool, end)
        try:
            if whole:
                write_all(self._fd, end_mark, self.bytes_copied)
        except OSError as error:
            self.error = f"{self.path} cannot be written: {reason_of(error)}."
            whole = False
        os.close(self._fd)
        if whole and end:
            try:
                self.bytes_copied = compact(self.path)
            except SpecmonError as error:
                _log.warning("%s", error)
        return whole
