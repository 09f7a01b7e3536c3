"""The engine's recorder: every event goes to a private spool, and on to the file that is kept."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from pathlib import Path

from specmon.core.engine.messages import Recording
from specmon.core.errors import SpecmonError
from specmon.core.events import Event, Gap
from specmon.core.session.build import FrameBuilder
from specmon.core.session.frames import pack_end
from specmon.core.session.keep import Keeper
from specmon.core.session.recover import create_spool
from specmon.core.session.target import NamingEvents, reason_of
from specmon.core.session.writer import Branches, is_full, keys_only, write_all

#: How often the thread looks for events and how long a frame waits; a kill loses the sum, below 250 ms.
POLL_S = 0.05
FRAME_AGE_NS = 150_000_000
#: Events taken before the kept file and those who wait are served, however many more are there.
PASS_EVENTS = 2_000

_log = logging.getLogger(__name__)


class Recorder:
    """Spools events from a thread of its own; `write` never waits and never fails.

    Where the disk refuses, events are counted as missing, a `Gap` follows as soon as writing works again, and
    `stats().error` says why.

    Args:
        state_dir: the folder of private spools; created if needed.
        branches: "keys" leaves out the tokens of branches.
    """

    def __init__(self, state_dir: Path, *, branches: Branches = "full") -> None:
        self._state_dir = state_dir
        self._branches = branches
        self._queue: deque[Event | threading.Event] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()  # guards the keepers
        self._keeper: Keeper | None = None
        self._ended: list[Keeper] = []
        self._builder = FrameBuilder()
        self._naming = NamingEvents()
        self._frame_started = 0
        self._frame_events = 0  # of the frame being built, those handed to `write`
        self._frame_gap = 0
        self._missing = 0  # events not written and not yet said so by a `Gap`
        self._is_lossless = True
        self._fd = -1
        self._offset = 0
        self._error: str | None = None
        self._closing = False
        self._keeps = True
        self._whole = True
        self.spool_path: Path | None = None
        try:
            self._open_spool()
        except OSError as error:
            self._error = self._describe(error)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, event: Event) -> None:
        """Take an event, the `Header` first."""
        self._queue.append(event)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all that was written so far is in spool and kept file; False where that takes longer."""
        if not self._thread.is_alive():
            return False
        done = threading.Event()
        self._queue.append(done)
        self._wake.set()
        return done.wait(timeout_s)

    def keep(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Keep this stream from its start at `path`; a kept one is finished first.

        Returns: the path; in a folder the file is named once the lanes are known (see `stats`).
        Raises: UsageError, SpecmonError where the file cannot be created or there is no spool to keep.
        """
        if self.spool_path is None:
            raise SpecmonError(self._error or "There is no spool to keep.")
        keeper = Keeper(Path(path), force=force)
        self.unkeep()
        with self._lock:
            self._keeper = keeper
        self._wake.set()
        return keeper.path

    def unkeep(self) -> None:
        """Finish the kept file, if there is one; the stream goes on in the spool alone."""
        with self._lock:
            if self._keeper is not None:
                self._ended.append(self._keeper)
                self._keeper = None
        self._wake.set()

    def stats(self) -> Recording:
        """Say how the recording stands, also after `close`: path, length, size and what is wrong."""
        keeper = self._keeper
        return Recording(
            path=str(keeper.path) if keeper is not None else None,
            seconds=self._builder.last_t / 1e9,
            bytes=keeper.bytes_copied if keeper is not None else self._offset,
            error=self._error or (keeper.error if keeper is not None else None),
            whole=self._is_lossless,
        )

    def close(self, *, keep: bool = True) -> None:
        """Write everything, finish the kept file and delete the spool, which stays where that failed.

        `keep`: False deletes the kept file too; nothing is kept then.
        """
        if self._closing:
            return
        self._keeps = keep
        self._closing = True
        self._wake.set()
        self._thread.join()
        if self._fd >= 0:
            if self._whole and self.spool_path is not None:
                self.spool_path.unlink(missing_ok=True)
            os.close(self._fd)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            if not self._queue:
                self._wake.wait(POLL_S)
            self._wake.clear()
            is_last = self._closing and len(self._queue) <= PASS_EVENTS
            waiting: list[threading.Event] = []
            try:
                self._drain(waiting, is_last)
                self._serve_keepers(is_last)
            except Exception:
                _log.exception("the recorder failed and goes on")
            for done in waiting:
                done.set()

    def _drain(self, waiting: list[threading.Event], is_last: bool) -> None:
        for _ in range(min(len(self._queue), PASS_EVENTS)):
            item = self._queue.popleft()
            if isinstance(item, threading.Event):
                self._store()
                waiting.append(item)
            else:
                self._take(item)
        if is_last and self._missing and not self._builder.events:
            self._start_frame(self._builder.last_t)
        is_due = time.monotonic_ns() - self._frame_started >= FRAME_AGE_NS
        if is_due or is_last or self._ended:
            self._store()

    def _take(self, event: Event) -> None:
        if not self._builder.events:
            self._start_frame(event.t)
        try:
            self._builder.add(keys_only(event) if self._branches == "keys" else event)
        except (ValueError, OverflowError, TypeError) as error:
            self._missing += 1
            self._is_lossless = False
            _log.warning("an event cannot be recorded: %s", error)
            return
        self._naming.see(event)
        self._frame_events += 1
        if is_full(self._builder):
            self._store()

    def _start_frame(self, t: int) -> None:
        """Begin a frame; after a loss, with what a file needs at its start and with a `Gap`."""
        self._frame_started = time.monotonic_ns()
        self._frame_events = 0
        self._frame_gap = count = self._missing
        if not count:
            return
        if not self._builder.events_packed and self._naming.header is not None:
            start = [self._naming.header, *self._naming.lanes.values()]
            for item in start:
                self._builder.add(item)
            count -= len(start)
        if count > 0:
            self._builder.add(Gap(t=t, count=count, reason="the recording could not be written"))

    def _store(self) -> None:
        if not self._builder.events:
            return
        counts = self._builder.events_packed, self._builder.rounds_packed
        chunk = self._builder.pack()
        try:
            self._open_spool()
            write_all(self._fd, chunk, self._offset)
        except OSError as error:
            self._builder.events_packed, self._builder.rounds_packed = counts
            self._missing += self._frame_events
            self._is_lossless = False
            self._error = self._describe(error)
        else:
            self._offset += len(chunk)
            self._missing -= self._frame_gap
            self._error = None

    def _open_spool(self) -> None:
        if self._fd < 0:
            self.spool_path, self._fd = create_spool(self._state_dir)

    def _describe(self, error: OSError) -> str:
        return f"The recording cannot be written to {self._state_dir}: {reason_of(error)}."

    def _serve_keepers(self, is_last: bool) -> None:
        with self._lock:
            if is_last and not self._keeps and self._keeper is not None:
                self._keeper.discard()
                self._keeper = None
            keeper, ended, self._ended = self._keeper, self._ended, []
        if keeper is not None and is_last:
            ended.append(keeper)
        elif keeper is not None and self._is_named(keeper, must=False):
            keeper.catch_up(self._fd, self._offset)
        builder = self._builder
        end_mark = pack_end(builder.events_packed, builder.rounds_packed, builder.last_t)
        for each in ended:
            self._whole &= self._is_named(each, must=True) and each.finish(self._fd, self._offset, end_mark)

    def _is_named(self, keeper: Keeper, *, must: bool) -> bool:
        """Name a kept file once the lanes are known, at its end anyway; False where it has no file yet."""
        if keeper.needs_name and (must or self._naming.lanes):
            try:
                keeper.name(self._naming.path_in(keeper.path))
            except SpecmonError as error:
                keeper.error = error.message
        return not keeper.needs_name
