"""Builds the `Header`: versions, devices and how they reach each other."""

from __future__ import annotations

import importlib.metadata
import platform
import socket
import subprocess
from pathlib import Path

import specmon
from specmon.core.events import DeviceInfo, Header
from specmon.core.hardware import link_between
from specmon.core.nvml import Nvml

_PACKAGES = ("torch", "triton", "transformers")


def build_header(
    *,
    devices: tuple[DeviceInfo, ...],
    gpu_uuids: tuple[str, ...],
    ceiling_source: str,
    hashes: dict[str, str],
    utc_start: str,
) -> Header:
    """What cannot change while this engine lives."""
    return Header(
        t=0,
        versions=_versions(),
        commit=_commit(),
        utc_start=utc_start,
        host=socket.gethostname(),
        devices=devices,
        link=link_between(tuple(device.name for device in devices), gpu_uuids),
        ceiling_source=ceiling_source,
        hashes=hashes,
    )


def _versions() -> dict[str, str]:
    versions = {"specmon": specmon.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    nvml = Nvml.open()
    if nvml and (driver := nvml.ask("SystemGetDriverVersion")):
        versions["driver"] = driver
    return versions


def _commit() -> str | None:
    """The commit of the checkout this runs from; None for an installed package."""
    root = Path(specmon.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=2,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
