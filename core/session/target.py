"""Where a recording goes: the path checked before anything is written, private files, names in folders."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import Event, Header, Lane


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot become a recording. A folder can: the file in it is named later.

    Raises: UsageError where a file is there already (unless `force`), it is no plain file, or its folder is
    missing.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise UsageError(f"{path} cannot be written: the folder {path.parent} does not exist.") from None
        return
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}.") from None
    if path.is_dir():
        return
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is not a plain file.", "Name a new file or a folder.")
    if not force:
        raise UsageError(f"{path} exists already.", "Name another file, or use --force to replace it.")


def check_creatable(path: Path, *, force: bool) -> None:
    """`check_target`, and that the folder takes a new file: one without a name, which leaves nothing behind.

    Raises: UsageError.
    """
    check_target(path, force=force)
    folder = path if path.is_dir() else path.parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: the folder {folder} takes no new file ({reason_of(error)})."
        ) from None


def create_private(path: Path, *, force: bool = False) -> int:
    """Create `path` for its owner alone (mode 0600) and give its file descriptor, open both ways.

    Raises: UsageError where a file is there (unless `force`); SpecmonError where it cannot be created.
    """
    check_target(path, force=force)
    try:
        if force:
            path.unlink(missing_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpecmonError(f"{path} cannot be written: {reason_of(error)}.") from None


def file_in(folder: Path, header: Header | None, lanes: Iterable[Lane]) -> Path:
    """Name a new file in `folder` after date, decoder and target: `20261129-205107_ssd_smollm2.session`."""
    lanes = list(lanes)
    decoders = "-".join(dict.fromkeys(lane.decoder for lane in lanes)) or "none"
    target = _plain(Path(lanes[0].target).name) if lanes else "none"
    stem = f"{_date(header)}_{decoders}_{target}"
    path, number = folder / f"{stem}.session", 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"{stem}_{number}.session"
    return path


class NamingEvents:
    """The events at a stream's start that name a file."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.lanes: dict[int, Lane] = {}

    def see(self, event: Event) -> None:
        """Note a `Header` or `Lane`."""
        if isinstance(event, Header):
            self.header = event
        elif isinstance(event, Lane):
            self.lanes[event.lane] = event

    def path_in(self, folder: Path) -> Path:
        """Name a new file in `folder` by what was seen so far."""
        return file_in(folder, self.header, self.lanes.values())


def reason_of(error: Exception) -> str:
    """Say why a file operation failed, as a clause: "no space left on device"."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]


def _date(header: Header | None) -> str:
    try:
        start = datetime.fromisoformat(header.utc_start if header else "")
    except ValueError:
        start = datetime.now(UTC)
    return start.strftime("%Y%m%d-%H%M%S")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip("-.")[:60] or "target"
