"""Files that are whole or not there, even where the disk is full or the process is killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError

from specmon.core.errors import SpecmonError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, which then takes its place; what was there before stays until then.

    Raises: SpecmonError saying why it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(path)
        part.touch()
        mode = part.stat().st_mode
        write(part)
        part.chmod(mode)  # what the user's umask says, whatever a library thinks
        with part.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(part, path)
    except (OSError, SafetensorError) as refused:
        reason = refused.strerror if isinstance(refused, OSError) and refused.strerror else str(refused)
        raise SpecmonError(f"{path} cannot be written: {reason}.") from refused
    finally:
        with suppress(OSError):
            part.unlink()


def _remove_left_behind(path: Path) -> None:
    """Parts of `path` whose processes were killed while they wrote."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        try:
            os.kill(int(part.name.split(".")[-2]), 0)
        except ProcessLookupError:
            part.unlink(missing_ok=True)
        except (PermissionError, ValueError):
            continue
