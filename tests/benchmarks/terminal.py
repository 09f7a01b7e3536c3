"""A pseudo-terminal with a program on it: reads what it draws, presses keys, and measures both."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType


class Terminal:
    """Runs `command` on `columns` × `rows` cells. Whoever uses it must keep reading, as a terminal does."""

    def __init__(
        self, command: Sequence[str], *, columns: int, rows: int, environment: Mapping[str, str]
    ) -> None:
        self.began = time.monotonic()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(command[0], list(command), dict(environment))
        self.chunks: list[tuple[float, int]] = []  # seconds since the start, bytes
        self._seen = b""
        self._code: int | None = None

    def read_until(self, text: bytes, timeout_s: float) -> float | None:
        """Read until `text` was drawn; seconds that took, None if it did not come."""
        began = time.monotonic()
        self._seen = b""
        while time.monotonic() - began < timeout_s:
            if text in self._seen:
                return time.monotonic() - began
            if not self._read(0.02):
                return None
        return None

    def read_for(self, seconds: float) -> None:
        """Read for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._read(min(left, 0.05)):
            pass

    def press(self, key: bytes, text: bytes, timeout_s: float) -> float:
        """Press a key; seconds until `text` was drawn, `timeout_s` if it never was."""
        os.write(self._fd, key)
        waited = self.read_until(text, timeout_s)
        return timeout_s if waited is None else waited

    def wait(self, timeout_s: float) -> int:
        """Read until the program has ended; its exit code. A program that does not end is killed: -9."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and self._read(0.1):
            pass
        return self._reap(kill=time.monotonic() >= end)

    def tail(self) -> str:
        """The last that was drawn."""
        return self._seen[-2000:].decode(errors="replace")

    def bytes_between(self, first: float, last: float) -> float:
        """Bytes a second between two fractions of the time the program drew."""
        if not self.chunks:
            return 0.0
        begin, end = self.chunks[0][0], self.chunks[-1][0]
        low, high = begin + first * (end - begin), begin + last * (end - begin)
        return sum(n for at, n in self.chunks if low <= at < high) / max(high - low, 1e-9)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._code is None:
            self._reap(kill=True)
        os.close(self._fd)

    def _read(self, timeout_s: float) -> bool:
        """Read what comes within `timeout_s`; False once the program has hung up."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:
            return False
        self.chunks.append((time.monotonic() - self.began, len(data)))
        self._seen = (self._seen + data)[-(1 << 18) :]
        return bool(data)

    def _reap(self, *, kill: bool) -> int:
        if kill:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        return self._code
