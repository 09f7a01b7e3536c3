"""`specmon doctor`: what this machine has, what is missing and how to mend it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import typer

from specmon.tui.commands.output import write_line

Verdict = Literal["ok", "warn", "fail"]

ENGINE_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "gguf", "numpy")
SMALLEST_SCREEN = (80, 24)


@dataclass(frozen=True)
class Finding:
    """One line of the report; `mend` says what to do where the verdict is not ok."""

    verdict: Verdict
    name: str
    detail: str
    mend: str = ""


def doctor() -> None:
    """Check Python, packages, devices, models, terminal and folders."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _packages,
        _engine,
        _devices,
        _models,
        _terminal,
        _folders,
    )
    failed = False
    for check in checks:
        for finding in check():
            failed = failed or finding.verdict == "fail"
            write_line(f"{finding.verdict:<5}{finding.name:<13}{finding.detail}")
            if finding.mend:
                write_line(f"{'':<18}→ {finding.mend}")
    if failed:
        raise typer.Exit(1)


def missing_engine_packages() -> list[str]:
    """What decoding needs and this environment lacks."""
    return [name for name in ENGINE_PACKAGES if importlib.util.find_spec(name) is None]


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "python", f"{version} ({sys.executable})")


def _packages() -> Iterator[Finding]:
    names = ("specmon", "textual", "msgspec", "zstandard", "nvidia-ml-py")
    yield Finding("ok", "packages", ", ".join(f"{name} {_version_of(name) or 'unknown'}" for name in names))


def _engine() -> Iterator[Finding]:
    if missing := missing_engine_packages():
        mend = "pip install 'specmon[engine]'; replaying and checking recordings work without"
        yield Finding("warn", "engine", f"missing: {', '.join(missing)}", mend)
        return
    found = ", ".join(f"{name} {_version_of(name)}" for name in ENGINE_PACKAGES)
    triton = _version_of("triton")
    yield Finding("ok", "engine", f"{found}, triton {triton}" if triton else found)


def _devices() -> Iterator[Finding]:
    from specmon.core.hardware import survey

    machine = survey()
    cores = len(machine.cpus)
    detail = f"{machine.cpus[0].model}, cpu:0 to cpu:{cores - 1}" if cores else "none"
    if cores >= 2:
        yield Finding("ok", "cpu", detail)
    else:
        yield Finding("warn", "cpu", detail, "SSD overlaps only on two devices: two CPU cores or two GPUs")
    for gpu in machine.gpus:
        memory = f", {gpu.memory_bytes / 2**30:.0f} GiB" if gpu.memory_bytes else ""
        if gpu.other_processes:
            mend = "--devices auto leaves it alone; name it to use it anyway"
            yield Finding(
                "warn", gpu.name, f"{gpu.model}{memory}, used by {gpu.other_processes} others", mend
            )
        else:
            yield Finding("ok", gpu.name, f"{gpu.model}{memory}")
    if machine.gpus:
        yield from _cuda(len(machine.gpus))
    else:
        yield Finding("ok", "gpu", "none seen by NVML: decoding runs on the CPU")


def _cuda(gpus: int) -> Iterator[Finding]:
    """Whether torch can use the GPUs the driver shows. Imports torch, so only where there are some."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if usable:
        yield Finding("ok", "cuda", f"torch {torch.__version__} can use {usable} of {gpus}")
    elif torch.version.cuda is None:
        mend = "install a CUDA build of torch to decode on the GPU"
        yield Finding("warn", "cuda", f"torch {torch.__version__} is built without CUDA", mend)
    else:
        mend = "check that the driver is new enough: nvidia-smi"
        yield Finding(
            "warn", "cuda", f"torch {torch.__version__} cannot start CUDA {torch.version.cuda}", mend
        )


def _models() -> Iterator[Finding]:
    from specmon.core.models.fetch import SMOLLM2, embedded_model_path, is_fetched
    from specmon.core.paths import cache_dir
    from specmon.tui.commands.models import shipped_drafters

    path = embedded_model_path(cache_dir())
    if is_fetched(cache_dir()):
        yield Finding("ok", "model", f"smollm2 in {path}")
    else:
        size = f"{SMOLLM2.wheel_bytes / 1e6:.0f} MB"
        yield Finding("warn", "model", "smollm2 is not fetched", f"specmon models fetch smollm2 ({size})")
    drafters = [folder.name for folder in shipped_drafters()]
    if drafters:
        yield Finding("ok", "drafters", ", ".join(drafters))
    else:
        yield Finding("fail", "drafters", "none shipped", "install specmon again: its data files are missing")


def _terminal() -> Iterator[Finding]:
    from specmon.tui.widgets.glyphs import can_carry_signs

    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    piped = [name for name, stream in streams.items() if not stream.isatty()]
    if piped:
        yield Finding("ok", "terminal", f"not here ({', '.join(piped)} redirected): text and JSON only")
        return
    columns, lines = shutil.get_terminal_size()
    term, encoding = os.environ.get("TERM", "unknown"), sys.stdout.encoding
    detail = f"{columns}×{lines}, TERM={term}, {encoding}"
    if (columns, lines) < SMALLEST_SCREEN or lines < SMALLEST_SCREEN[1]:
        yield Finding("warn", "terminal", detail, "the monitor wants 80×24 or more")
    elif term == "dumb":
        yield Finding("warn", "terminal", detail, "set TERM to what the terminal is, or use --plain")
    elif not can_carry_signs(encoding):
        yield Finding(
            "warn", "terminal", detail, "the monitor draws in ASCII; a UTF-8 locale gives it all signs"
        )
    else:
        yield Finding("ok", "terminal", detail)


def _folders() -> Iterator[Finding]:
    from specmon.core import paths

    for name, folder in (
        ("cache", paths.cache_dir()),
        ("config", paths.config_dir()),
        ("state", paths.state_dir()),
    ):
        there = _nearest_existing(folder)
        free_gb = shutil.disk_usage(there).free / 1e9
        detail = f"{folder}, {free_gb:,.1f} GB free"
        if not os.access(there, os.W_OK):
            variable = f"XDG_{name.upper()}_HOME"
            yield Finding(
                "fail", name, f"{folder} cannot be written", f"mend its permissions or set {variable}"
            )
        elif name != "config" and free_gb < 0.5:
            yield Finding("warn", name, detail, "make room: models and recordings need some")
        else:
            yield Finding("ok", name, detail)


def _nearest_existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
