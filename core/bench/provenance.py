"""Where and with what a measurement was taken."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import specmon


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Commit, day (UTC), hardware in words, and package versions."""

    commit: str | None
    date: str
    hardware: str
    versions: dict[str, str]


def provenance(hardware: str, packages: Sequence[str]) -> Provenance:
    """What to write beside a measurement made now, on `hardware`, that depends on `packages`."""
    versions = {"specmon": specmon.__version__, "python": platform.python_version()}
    versions |= {package: importlib.metadata.version(package) for package in packages}
    today = datetime.now(UTC).date().isoformat()
    return Provenance(commit=checkout_commit(), date=today, hardware=hardware, versions=versions)


def checkout_commit() -> str | None:
    """Short commit of the checkout this runs from, "+" if its code differs; None without a checkout."""
    root = Path(specmon.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "core", "kernels", "tui")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+" if changed else commit


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
