"""Reads the view's end of the channel in a thread of its own.

A socket holds a few hundred events, a view looks 16 times a second: without this, either the engine's sender would wait
for the view, or the view would be sent to the spool for everything in between.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading

MAX_WAITING_BYTES = 16 << 20  #: beyond it the socket is left alone: the engine's bounded queue takes over
TAKEN_BYTES = 1 << 20  #: at a time, so that what waits is not there twice
_CHUNK_BYTES = 1 << 18


class Inlet:
    """The bytes that have arrived on `sock`, at most about `capacity`, until they are taken.

    Close the socket only after `close`.
    """

    def __init__(self, sock: socket.socket, capacity: int = MAX_WAITING_BYTES) -> None:
        self._socket = sock
        self._capacity = capacity
        self._data = bytearray()
        self._ended = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="inlet", daemon=True)
        self._thread.start()

    def take(self) -> bytes | None:
        """The oldest bytes that wait, TAKEN_BYTES at most; empty if none do, None once all was taken and no more comes."""
        with self._changed:
            data = bytes(self._data[:TAKEN_BYTES])
            del self._data[:TAKEN_BYTES]
            self._changed.notify_all()
            return None if self._ended and not data else data

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to take, or the end; False if neither comes within `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._data) or self._ended, max(timeout_s, 0.0))

    def close(self) -> None:
        """Stop reading."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        self._thread.join(1.0)

    def _run(self) -> None:
        while self._room():
            data = self._receive()
            with self._changed:
                self._data += data
                self._ended = self._ended or not data
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _receive(self) -> bytes:
        """Wait for bytes; empty once no more come."""
        try:
            select.select([self._socket], [], [])
            return self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return self._receive()
        except (OSError, ValueError):
            return b""

    def _room(self) -> bool:
        """Wait for room; False once there is nothing more to read."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._data) < self._capacity or self._closed)
            return not (self._closed or self._ended)
