"""Driving the engine without a screen: one command after the other, every event handed on as it comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import (
    Cancel,
    Command,
    Idle,
    Notice,
    Progress,
    Ready,
    Record,
    Recording,
    Refused,
)
from specmon.core.errors import SpecmonError
from specmon.core.events import Event
from specmon.tui.commands.output import note, say

POLL_S = 0.25
CLOSE_WITHIN_S = 20.0
CLOSE_INTERRUPTED_WITHIN_S = 1.0


class Headless:
    """An engine whose events go to `on_event`; its progress and notes go to `say`, stderr if not given.

    Each thing that is wrong with the recording is said once.
    """

    def __init__(
        self, client: EngineClient, on_event: Callable[[Event], None], say: Callable[[str], None] = say
    ) -> None:
        self._client = client
        self._on_event = on_event
        self._say = say
        self._last_step = ""
        self._close_within_s = CLOSE_WITHIN_S
        self._recording: Recording | None = None
        self._said: set[str] = set()

    @property
    def recording(self) -> str | None:
        """Where the recording is kept, None where it is not."""
        return None if self._recording is None else self._recording.path

    @property
    def incomplete(self) -> bool:
        """Whether the kept recording lacks events."""
        return self._recording is not None and self._recording.incomplete

    def check_recording(self) -> None:
        """Raises: SpecmonError if the kept recording lacks events."""
        if self._recording is not None and self.incomplete:
            hint = "To keep all of it: specmon replay --recover" if self._recording.whole else ""
            raise SpecmonError(f"The recording {self.recording} is incomplete.", hint)

    def __enter__(self) -> Headless:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close(timeout_s=self._close_within_s)
        while items := self._client.poll():
            for item in items:
                if isinstance(item, Recording):
                    self._take_recording(item)

    def do(self, command: Command) -> None:
        """Carry out one command to its end.

        Raises: SpecmonError if the engine refuses it or dies; KeyboardInterrupt on ctrl+c, once the engine
        has stopped at a round border (a second ctrl+c does not wait for that).
        """
        self._client.send(command)
        name = type(command).__name__
        try:
            while not self._step(name):
                pass
        except KeyboardInterrupt:
            self._cancel(name)
            raise

    def record(self, path: Path, force: bool) -> None:
        """Keep the recording at `path`, a file or a folder. Raises: SpecmonError if that is refused."""
        self._client.send(Record(path=str(path.absolute()), force=force))
        while self.recording is None:
            self._step("Record")

    def _cancel(self, name: str) -> None:
        """Stop a request at the next round border; loading cannot be stopped, so then nothing is waited for."""
        if name not in {"Generate", "Race"}:
            self._close_within_s = CLOSE_INTERRUPTED_WITHIN_S
        elif self._client.alive:
            self._client.send(Cancel())
            while not self._step(name):
                pass

    def _step(self, name: str) -> bool:
        """Hand on what has come; True when the command `name` is done."""
        done = False
        for item in self._client.wait(POLL_S):
            if isinstance(item, Event):
                self._on_event(item)
            else:
                done = self._notice(item, name) or done
        if not done and not self._client.alive:
            death = self._client.death()
            if death is not None:
                note("\n".join(death.log_tail))
                raise SpecmonError(death.reason)
        return done

    def _notice(self, notice: Notice, name: str) -> bool:
        match notice:
            case Idle(of=of):
                return of == name
            case Refused(message=message, hint=hint, exit_code=exit_code):
                raise SpecmonError(message, hint, exit_code=exit_code)
            case Progress(what=what) if what != self._last_step:
                self._last_step = what
                self._say(what)
            case Ready(notes=notes):
                for text in notes:
                    self._say(text)
            case Recording():
                self._take_recording(notice)
        return False

    def _take_recording(self, notice: Recording) -> None:
        self._recording = notice
        if notice.error is not None and notice.error not in self._said:
            self._said.add(notice.error)
            self._say(notice.error)
