"""The view's end of the engine: starts the process, sends commands, hands out events and notices.

Torch-free. One thread owns a client. Nothing here waits for the engine except `start`, `wait` and `close`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import cast

from specmon.core import paths
from specmon.core.engine.channel import ChannelError, FrameParser, frame_command
from specmon.core.engine.death import EngineDeath, explain, oom_kills, wait_for_end
from specmon.core.engine.inlet import MAX_WAITING_BYTES, Inlet
from specmon.core.engine.messages import Command, Dropped, Hello, Notice, Shutdown
from specmon.core.engine.refill import refill
from specmon.core.errors import SpecmonError
from specmon.core.events import Event

KEPT_LOGS = 10
_SEND_TIMEOUT_S = 5.0
_TERMINATE_S = 3.0
_ENGINE = ("-P", "-m", "specmon.core.engine")


class EngineClient:
    """A running engine process.

    `poll` gives every event exactly once and in order, notices between them: what the engine dropped because
    the view was slow is read back from the spool, and so is what a killed engine had spooled but not sent.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], sock: socket.socket, log: Path, view_bytes: int
    ) -> None:
        """Use `start`."""
        self._process = process
        self._socket = sock
        self._inlet = Inlet(sock, view_bytes)
        self._parser = FrameParser()
        self._refill: Iterator[tuple[int, Event]] = iter(())
        self._spool: Path | None = None
        self._delivered = 0  # events handed out or accounted for, Header included
        self._hung_up = False
        self._ended = False
        self._unreadable = ""
        self._oom_kills = oom_kills()
        self._death: EngineDeath | None = None
        self.log_path = log

    @classmethod
    def start(
        cls,
        *,
        state_dir: Path | None = None,
        debug: bool = False,
        pin: bool = True,
        view_queue: int | None = None,
        view_bytes: int = MAX_WAITING_BYTES,
        program: Sequence[str] = _ENGINE,
    ) -> EngineClient:
        """Start an engine; it answers with `Hello` within a fraction of a second and loads nothing yet.

        Args:
            state_dir: where spool and log go; the user's state folder if None.
            debug: the engine logs at debug level.
            pin: bind the decode thread to its core on CPU devices.
            view_queue: how many events wait for a slow view before the rest goes through the spool.
            view_bytes: how much waits on this side before the engine's queue fills.
            program: what Python is asked to run, for tests.
        Raises: SpecmonError if no process can be started.
        """
        state = state_dir or paths.state_dir()
        try:
            log = _new_log(state)
            ours, theirs = socket.socketpair()
            options = ["--fd", str(theirs.fileno()), "--state-dir", str(state), "--log", str(log)]
            options += ["--debug"] * debug + ["--no-pin"] * (not pin)
            options += ["--view-queue", str(view_queue)] if view_queue is not None else []
            with theirs:
                process = _spawn([*program, *options], theirs, log)
        except OSError as error:
            raise SpecmonError(f"The engine cannot be started: {error.strerror or error}.") from error
        ours.setblocking(False)
        return cls(process, ours, log, view_bytes)

    @property
    def pid(self) -> int:
        """The engine's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once the engine is gone and all it said has been handed out by `poll`."""
        return not self._ended

    def send(self, command: Command) -> None:
        """Send a command; its answer comes through `poll`.

        Raises: SpecmonError if the engine is gone or takes no commands.
        """
        data = memoryview(frame_command(command))
        deadline = time.monotonic() + _SEND_TIMEOUT_S
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                if not _writable(self._socket, deadline - time.monotonic()):
                    raise SpecmonError(
                        "The engine takes no commands.", f"Its log is {self.log_path}."
                    ) from None
            except OSError as error:
                raise SpecmonError("The engine is gone.", f"Its log is {self.log_path}.") from error

    def poll(self, max_items: int = 4096) -> list[Event | Notice]:
        """What has arrived, oldest first, at most `max_items`; never waits for the engine."""
        return list(itertools.islice(self._items(), max_items))

    def wait(self, timeout_s: float, max_items: int = 4096) -> list[Event | Notice]:
        """Like `poll`, but wait up to `timeout_s` for a first item; empty if none came or all is over."""
        deadline = time.monotonic() + timeout_s
        while not (items := self.poll(max_items)) and not self._ended:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._inlet.wait(remaining):
                break
        return items

    def death(self) -> EngineDeath | None:
        """Why the engine is gone; None while it is `alive`."""
        if self._ended and self._death is None:
            self._death = explain(
                wait_for_end(self._process, 2.0),
                log=self.log_path,
                oom_kills=oom_kills() - self._oom_kills,
                unreadable=self._unreadable,
            )
        return self._death

    def close(self, timeout_s: float = 20.0) -> None:
        """Ask the engine to close its recording and exit; end it if it has not after `timeout_s`.

        May be repeated. `poll` still gives what the engine said last.
        """
        if self._process.returncode is None:
            deadline = time.monotonic() + timeout_s
            with contextlib.suppress(SpecmonError):  # already gone
                self.send(Shutdown())
            self._await_hang_up(deadline)
            self._end(deadline - time.monotonic())
        self._inlet.close()
        self._socket.close()

    def _end(self, patience_s: float) -> None:
        """Wait for the process, then insist."""
        for insist in (self._process.terminate, self._process.kill):
            if wait_for_end(self._process, max(0.1, patience_s)) is not None:
                return
            insist()
            patience_s = _TERMINATE_S
        self._process.wait()

    def __enter__(self) -> EngineClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _items(self) -> Iterator[Event | Notice]:
        """Everything that can be handed out now; the state is the client's, so a caller may stop anywhere."""
        while True:
            if (refilled := next(self._refill, None)) is not None:
                self._delivered, event = refilled
                yield event
            elif (message := self._next_message()) is not None:
                yield self._take(message)
            elif not self._receive():
                return

    def _next_message(self) -> Event | Notice | None:
        try:
            return cast("Event | Notice | None", self._parser.next())
        except ChannelError as error:
            self._unreadable = str(error)
            self._process.kill()
            self._hang_up()
            return None

    def _take(self, message: Event | Notice) -> Event | Notice:
        if isinstance(message, Event):
            self._delivered += 1
        elif isinstance(message, Hello):
            self._spool = Path(message.spool) if message.spool else None
        elif isinstance(message, Dropped):
            self._refill = refill(
                self._spool, self._delivered, self._delivered + message.count, whole=message.whole
            )
        return message

    def _receive(self) -> bool:
        """Read what waits on the socket; True if there may be more to hand out."""
        if self._hung_up:
            self._ended = True
            return False
        data = self._inlet.take()
        if data is None:
            self._hang_up()
            return True
        self._parser.feed(data)
        return bool(data)

    def _hang_up(self) -> None:
        """No more comes from the engine itself; what it spooled last may still be read."""
        self._hung_up = True
        self._parser = FrameParser()
        self._refill = refill(self._spool, self._delivered, None)

    def _await_hang_up(self, deadline: float) -> None:
        """Take in what the engine says last, so that it is never stuck saying it."""
        while (data := self._inlet.take()) is not None:
            self._parser.feed(data)
            if not data and not self._inlet.wait(deadline - time.monotonic()):
                return


def _spawn(arguments: list[str], sock: socket.socket, log: Path) -> subprocess.Popen[bytes]:
    """Run Python in a session of its own, so that ctrl+c in the terminal reaches the view alone."""
    with log.open("ab") as log_file:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            pass_fds=[sock.fileno()],
            start_new_session=True,
        )


def _writable(sock: socket.socket, timeout_s: float) -> bool:
    return bool(select.select([], [sock], [], max(0.0, timeout_s))[1])


def _new_log(state_dir: Path) -> Path:
    """A new private log, in the system's temporary folder where the state folder cannot be written."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    try:
        folder = paths.private_dir(state_dir / "logs")
        _prune_logs(folder)
        handle, name = tempfile.mkstemp(prefix=f"engine-{stamp}-", suffix=".log", dir=folder)
    except (SpecmonError, OSError):
        handle, name = tempfile.mkstemp(prefix=f"specmon-engine-{stamp}-", suffix=".log")
    os.close(handle)
    return Path(name)


def _prune_logs(folder: Path) -> None:
    """Leave room for one more among the newest `KEPT_LOGS`."""
    for path in sorted(folder.glob("engine-*.log"))[: -KEPT_LOGS + 1]:
        path.unlink(missing_ok=True)
