"""The prompts sent before, kept across starts in a private file, and a place among them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from specmon.core import paths
from specmon.core.errors import SpecmonError

KEPT = 500


class History:
    """Old prompts and a place among them; the draft being typed is the newest entry.

    `path` holds one JSON string a line, readable by the user alone; None keeps nothing. A file that cannot be
    written loses prompts of this start, no more.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._sent = _read(path) if path is not None else []
        self._at = len(self._sent)
        self._draft = ""

    def add(self, text: str) -> None:
        """Remember a sent prompt; the same one twice in a row is kept once."""
        if self._sent[-1:] != [text]:
            self._sent.append(text)
            if self._path is not None:
                _append(self._path, text)
        self._at, self._draft = len(self._sent), ""

    def older(self, present: str) -> str | None:
        """The prompt before; None at the oldest. `present` is what the box holds now."""
        if self._at == 0:
            return None
        if self._at == len(self._sent):
            self._draft = present
        self._at -= 1
        return self._sent[self._at]

    def newer(self) -> str | None:
        """The prompt after, at last the draft; None there."""
        if self._at == len(self._sent):
            return None
        self._at += 1
        return self._draft if self._at == len(self._sent) else self._sent[self._at]


def _read(path: Path) -> list[str]:
    """The newest KEPT prompts; lines that are none are passed over. A file grown to twice that is cut."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    prompts = []
    for line in lines:
        try:
            prompts.append(msgspec.json.decode(line, type=str))
        except msgspec.DecodeError:
            continue
    if len(lines) > 2 * KEPT:
        _rewrite(path, prompts[-KEPT:])
    return prompts[-KEPT:]


def _append(path: Path, text: str) -> None:
    try:
        paths.private_dir(path.parent)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(msgspec.json.encode(text) + b"\n")
    except (OSError, SpecmonError):
        return


def _rewrite(path: Path, prompts: list[str]) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        with os.fdopen(paths.create_private(partial), "wb") as file:
            file.writelines(msgspec.json.encode(text) + b"\n" for text in prompts)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
