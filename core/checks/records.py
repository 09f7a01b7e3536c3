"""Which checks have passed, in the user's state folder: what a benchmark looks up before it shows a speed. Torch-free."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from specmon.core import paths
from specmon.core.checks.subject import Kind, Subject, speaks_for
from specmon.core.errors import SpecmonError
from specmon.core.paths import private_dir


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """One check that passed, on which day (UTC) and with which command."""

    kind: Kind
    subject: Subject
    date: str
    command: str


def verifies(passed: Sequence[Kind]) -> bool:
    """Whether a lane's speed may stand without a remark: its tokens are AR's."""
    return "agreement" in passed


class Records:
    """A file a check and subject in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_user(cls) -> Records:
        """Those in the state folder."""
        return cls(paths.state_dir() / "checks")

    def keep(self, passed: Passed) -> None:
        """Note that a check has passed. Raises: SpecmonError if it cannot be written."""
        private_dir(self._folder)
        file = self._file(passed.kind, passed.subject)
        part = file.with_suffix(f".{os.getpid()}")
        try:
            part.write_bytes(msgspec.json.encode(passed))
            part.replace(file)
        except OSError as refused:
            raise SpecmonError(
                f"The check passed, but {self._folder} cannot keep that: {refused.strerror}."
            ) from refused

    def drop(self, kind: Kind, subject: Subject) -> None:
        """Forget that a check has passed: it did not this time."""
        self._file(kind, subject).unlink(missing_ok=True)

    def passed(self, lane: Subject) -> tuple[Kind, ...]:
        """The kinds of checks that have passed and speak for `lane`, in order."""
        kinds = (r.kind for r in self._all() if speaks_for(r.kind, r.subject, lane))
        return tuple(sorted(set(kinds)))

    def _all(self) -> list[Passed]:
        """All that can be read: a file that is damaged says nothing."""
        found = []
        for file in self._folder.glob("*.json"):
            try:
                found.append(msgspec.json.decode(file.read_bytes(), type=Passed))
            except (OSError, msgspec.MsgspecError):
                continue
        return found

    def _file(self, kind: Kind, subject: Subject) -> Path:
        name = hashlib.sha256(msgspec.json.encode(subject)).hexdigest()[:16]
        return self._folder / f"{kind}-{name}.json"
