"""The engine process: reads commands in one thread, decodes in the main thread, never waits for its view.

commands ─► reader thread ─► queue ─► main thread: Work ─► Stream ─┬─► Recorder (own thread) ─► spool
                └─ Cancel, Record, Mark act at once                └─► Outbox (own thread) ─► view
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from specmon.core.engine.channel import ChannelError, FrameParser, receive
from specmon.core.engine.death import ENDED_BY_SIGTERM
from specmon.core.engine.failures import refusal
from specmon.core.engine.logs import StreamLogHandler
from specmon.core.engine.messages import (
    Cancel,
    Command,
    Generate,
    Hello,
    Idle,
    Load,
    Mark,
    MeasureAr,
    Race,
    Record,
    Shutdown,
)
from specmon.core.engine.outbox import VIEW_QUEUE_EVENTS, Outbox
from specmon.core.engine.stream import Stream
from specmon.core.engine.work import Work
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import Marker
from specmon.core.session.spool import Recorder

RECORDING_PERIOD_S = 1.0
_CLOSING_GRACE_S = 10.0  # how long an engine without a view may take to end
_LAST_WORDS_S = 5.0
_SIGNAL_DELAY_S = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What the client passes on the command line."""

    state_dir: Path
    log: Path
    pin: bool = True
    view_queue: int = VIEW_QUEUE_EVENTS


class Engine:
    """One engine over one socket; `run` returns when the view asks for it or is gone."""

    def __init__(self, sock: socket.socket, options: EngineOptions) -> None:
        self._socket = sock
        self._options = options
        self._recorder = Recorder(options.state_dir)
        self._outbox = Outbox(sock, settle=self._settle_spool, capacity=options.view_queue)
        self._stream = Stream(record=self._recorder.write, show=self._outbox.put_event)
        self._work = Work(stream=self._stream, notify=self._outbox.put_notice, pin=options.pin)
        self._queue: queue.SimpleQueue[tuple[Command, int]] = (
            queue.SimpleQueue()
        )  # and the requests before it
        self._requests = 0  # Generate and Race received so far
        self._cancelled = 0  # of those, how many (from the first on) are to stop
        self._spool_is_whole = True
        self._loading = False
        self._ending = False
        self._status = 0
        self._dismissed = False  # the view has said that it ends
        self._done = threading.Event()

    def run(self) -> int:
        """Serve until `Shutdown`, SIGTERM or the end of the channel. Returns: the process's exit status."""
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        logging.getLogger("specmon").addHandler(StreamLogHandler(self._stream))
        self._outbox.start()
        spool = self._recorder.spool_path
        self._outbox.put_notice(
            Hello(pid=os.getpid(), spool=None if spool is None else str(spool), log=str(self._options.log))
        )
        for target in (self._read_commands, self._report_recording):
            threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True).start()
        try:
            while not self._ending:
                command, request = self._next_command()
                if not self._ending:
                    self._do(command, request)
        finally:
            self._close()
        return self._status

    def _next_command(self) -> tuple[Command, int]:
        """Wait for work, in steps: a signal that comes just before an endless wait would go unnoticed."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=_SIGNAL_DELAY_S)

    def _do(self, command: Command, request: int) -> None:
        """Carry out one queued command and answer it."""
        try:
            if isinstance(command, Load):
                self._load(command)
            elif isinstance(command, Generate):
                self._work.generate(command, lambda: request <= self._cancelled)
            elif isinstance(command, Race):
                self._work.race(command, lambda: request <= self._cancelled)
            elif isinstance(command, MeasureAr):
                self._work.measure_ar(command)
        except Exception as error:
            self._refuse(command, error)
        else:
            self._outbox.put_notice(Idle(of=type(command).__name__))

    def _load(self, command: Load) -> None:
        self._loading = True
        try:
            self._work.load(command)
        finally:
            self._loading = False

    def _refuse(self, command: Command, error: Exception) -> None:
        of = type(command).__name__
        if not isinstance(error, SpecmonError):
            _log.error("%s failed", of, exc_info=error)
        self._outbox.put_notice(refusal(of, error, log=self._options.log))

    def _read_commands(self) -> None:
        parser = FrameParser()
        try:
            while receive(self._socket, parser) is not None:
                while (message := parser.next()) is not None:
                    self._take(cast("Command", message))
        except ChannelError:
            _log.exception("the view sent what cannot be read")
        self._shut_down()
        if not self._done.wait(_CLOSING_GRACE_S):
            os._exit(1)

    def _take(self, command: Command) -> None:
        """In the reader thread: act on what cannot wait, queue the rest."""
        if isinstance(command, Cancel):
            self._cancelled = self._requests
        elif isinstance(command, Shutdown):
            self._dismissed = True
            self._shut_down()
        elif isinstance(command, Record | Mark):
            self._do_at_once(command)
        else:
            self._requests += isinstance(command, Generate | Race)
            self._queue.put((command, self._requests))

    def _do_at_once(self, command: Record | Mark) -> None:
        try:
            if isinstance(command, Mark):
                self._mark(command.label)
            elif command.path is None:
                self._recorder.unkeep()
            else:
                self._recorder.keep(Path(command.path), force=command.force)
        except Exception as error:
            self._refuse(command, error)
        if isinstance(command, Record):
            self._tell_recording()

    def _mark(self, label: str) -> None:
        if not self._stream.begun:
            raise UsageError("There is nothing to mark yet.", "Wait until a lane is loaded.")
        self._stream.emit(Marker(t=self._stream.clock(), label=label))

    def _terminate(self) -> None:
        self._status = ENDED_BY_SIGTERM
        self._shut_down()

    def _shut_down(self) -> None:
        """Let the main thread stop what it does and end. Also called from a signal handler."""
        self._cancelled = sys.maxsize
        self._ending = True
        self._queue.put((Shutdown(), 0))
        if self._loading:  # a load cannot be interrupted, and adds nothing to the stream
            self._close_recording()
            os._exit(self._status)

    def _report_recording(self) -> None:
        while not self._done.wait(RECORDING_PERIOD_S):
            stats = self._recorder.stats()
            self._spool_is_whole &= stats.error is None
            if stats.path is not None or stats.error is not None:
                self._outbox.put_notice(stats)

    def _tell_recording(self) -> None:
        self._outbox.put_notice(self._recorder.stats())

    def _settle_spool(self) -> bool:
        """In the outbox's thread: wait for the spool; whether it has every event of the stream so far."""
        self._spool_is_whole &= self._recorder.flush() and self._recorder.stats().error is None
        return self._spool_is_whole

    def _close(self) -> None:
        self._work.close()
        self._close_recording()
        self._done.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _close_recording(self) -> None:
        """Finish what is recorded, say so, and say no more. A recording without a turn is not kept."""
        if self._dismissed or self._work.turns == 0 or self._recorder.stats().path is not None:
            self._recorder.close(keep=self._work.turns > 0)
        else:  # the view crashed, or somebody ended this process: the spool is there to be recovered
            self._recorder.flush()
        self._tell_recording()
        self._outbox.close(_LAST_WORDS_S)
