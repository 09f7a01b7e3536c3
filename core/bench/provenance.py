"""Where and with what a measurement was taken."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec

import specmon
from specmon.core.events import Header


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Commit, day (UTC), hardware in words, and package versions."""

    commit: str | None
    date: str
    hardware: str
    versions: dict[str, str]


def provenance(hardware: str, packages: Sequence[str]) -> Provenance:
    """What to write beside a measurement made now, on `hardware`, that depends on those of `packages` that are here."""
    versions = {"specmon": specmon.__version__, "python": platform.python_version()}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return Provenance(commit=checkout_commit(), date=today(), hardware=hardware, versions=versions)


def of_engine(header: Header) -> Provenance:
    """What to write beside a measurement taken with the engine that sent `header`."""
    hardware = "; ".join(f"{device.name}: {device.model}" for device in header.devices)
    return Provenance(commit=checkout_commit(), date=today(), hardware=hardware, versions=header.versions)


def today() -> str:
    """The day (UTC), as files and figures name it."""
    return datetime.now(UTC).date().isoformat()


def checkout_commit() -> str | None:
    """Short commit of the checkout this runs from, "+" if its code differs; None without a checkout."""
    commit, changes = _checkout()
    return f"{commit}+" if commit and changes else commit


@cache
def code_state() -> str:
    """The version, the commit where there is a checkout, and eight digits of a hash of what differs from it."""
    commit, changes = _checkout()
    words = [specmon.__version__, *([commit] if commit else [])]
    if changes:
        words.append(hashlib.sha256(changes.encode()).hexdigest()[:8])
    return " ".join(words)


def _checkout() -> tuple[str | None, str]:
    """Short commit of the checkout this runs from, and how its code differs from it; None without a checkout."""
    root = Path(specmon.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None, ""
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        return commit, _git(root, "diff", "HEAD", "--", "core", "kernels", "tui")
    except (OSError, subprocess.CalledProcessError):
        return None, ""


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
