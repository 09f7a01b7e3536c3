"""The bounded queue between the engine and its view, and the thread that empties it into the socket.

Putting something in never waits. Events that find the queue full are dropped and only counted; when their
turn to be sent comes, a `Dropped` says how many they were, by then all of them in the spool. Notices always
travel.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable

from specmon.core.engine.channel import ChannelError, frame_event, frame_notice
from specmon.core.engine.messages import Dropped, Notice
from specmon.core.events import Event, Gap

VIEW_QUEUE_EVENTS = 4096
_BATCH_BYTES = 64 << 10

_log = logging.getLogger(__name__)


class _DroppedRun:
    """Events left out at this place of the queue; there is one to begin with."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 1


class Outbox:
    """What is on its way to the view.

    Args:
        sock: blocking; the sender thread alone writes to it.
        settle: called before a `Dropped` is sent; returns when the spool holds every event put in so far, and
            says whether it has them all.
        capacity: events that may wait.
    """

    def __init__(
        self, sock: socket.socket, *, settle: Callable[[], bool], capacity: int = VIEW_QUEUE_EVENTS
    ) -> None:
        self._socket = sock
        self._settle = settle
        self._capacity = capacity
        self._queue: deque[Event | Notice | _DroppedRun] = deque()
        self._events = 0  # in the queue
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put_event(self, event: Event) -> None:
        """Queue an event, or count it as dropped."""
        with self._changed:
            last = self._queue[-1] if self._queue else None
            run = last if isinstance(last, _DroppedRun) else None
            # a run ends when half the queue is free: few long runs are cheaper to refill than many short ones
            if self._events < (self._capacity // 2 if run else self._capacity):
                self._append(event)
                self._events += 1
            elif run:
                run.count += 1
            else:
                self._append(_DroppedRun())

    def put_notice(self, notice: Notice) -> None:
        """Queue a notice behind all that was put in before."""
        with self._changed:
            self._append(notice)

    def close(self, timeout_s: float) -> None:
        """Send what is queued, for at most `timeout_s`, then send no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _append(self, item: Event | Notice | _DroppedRun) -> None:
        if not self._closed:
            self._queue.append(item)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                self._socket.sendall(batch)
        except OSError:
            with self._changed:  # the view is gone; the reader of commands sees it too and ends the engine
                self._closed = True
                self._queue.clear()

    def _next_batch(self) -> bytes:
        """The next frames to send; waits for some, and is empty once closed and drained."""
        frames = bytearray()
        while len(frames) < _BATCH_BYTES and (item := self._pop(wait=not frames)) is not None:
            frames += self._frame(item)
        return bytes(frames)

    def _pop(self, *, wait: bool) -> Event | Notice | _DroppedRun | None:
        with self._changed:
            while wait and not self._queue and not self._closed:
                self._changed.wait()
            if not self._queue:
                return None
            item = self._queue.popleft()
            self._events -= isinstance(item, Event)
            return item

    def _frame(self, item: Event | Notice | _DroppedRun) -> bytes:
        if isinstance(item, _DroppedRun):
            return frame_notice(Dropped(count=item.count, whole=self._settle()))
        if not isinstance(item, Event):
            return frame_notice(item)
        try:
            return frame_event(item)
        except (TypeError, ValueError, ChannelError) as error:
            _log.exception("an event cannot be sent")
            return frame_event(Gap(t=item.t, lane=item.lane, turn=item.turn, count=1, reason=str(error)))
