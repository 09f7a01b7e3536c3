"""Files the user saves from the screen: private, named by the time, never overwriting another."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from specmon.core import paths
from specmon.core.errors import SpecmonError


def save(folder: Path, kind: str, text: str) -> Path:
    """Write `text` as a new file with the ending `kind` into `folder`.

    Raises: SpecmonError if that cannot be done.
    """
    paths.private_dir(folder)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    for number in itertools.count():
        path = folder / f"{stamp}{f'-{number}' if number else ''}.{kind}"
        try:
            descriptor = paths.create_private(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise SpecmonError(f"Cannot write {path}: {error.strerror or error}.") from error
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path
    raise AssertionError("unreachable")
