"""Where specmon keeps its files: the user's cache, config and state folders (XDG on Linux), all private.

This is the one place that asks the platform; everything else is handed a path.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from specmon.core.errors import SpecmonError

_APP = "specmon"


def cache_dir() -> Path:
    """Downloaded models; safe to delete."""
    return Path(platformdirs.user_cache_dir(_APP))


def config_dir() -> Path:
    """The user's settings and key bindings."""
    return Path(platformdirs.user_config_dir(_APP))


def state_dir() -> Path:
    """Spools, logs and recordings."""
    return Path(platformdirs.user_state_dir(_APP))


def recordings_dir() -> Path:
    """Where recordings go when no path is given."""
    return state_dir() / "recordings"


def private_dir(path: Path) -> Path:
    """Make `path` and what is missing above it, readable by the user alone (0700), and return it.

    An existing folder is left as it is.
    Raises: SpecmonError if it cannot be made or is no folder.
    Source: XDG Base Directory Specification, which asks for 0700.
    """
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SpecmonError(
            f"Cannot make the folder {path}: {error.strerror or error}.",
            "Check its permissions, or set XDG_STATE_HOME or XDG_CACHE_HOME to a folder you can write.",
        ) from error
    return path


def create_private(path: Path) -> int:
    """Create a new file only the user can read (0600); return its descriptor, open for appending.

    Raises: FileExistsError if it exists.
    """
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
