"""Why an engine process ended, in words."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from specmon.core.endings import ended_by

LOG_TAIL_LINES = 12
_LOG_TAIL_BYTES = 16 << 10
ENDED_BY_SIGTERM = 128 + signal.SIGTERM  #: the status of an engine that finished its recording after SIGTERM


@dataclass(frozen=True, kw_only=True)
class EngineDeath:
    """Why the engine is gone, in one sentence, and the last lines of its log."""

    reason: str
    log_tail: tuple[str, ...] = ()


def explain(returncode: int | None, *, log: Path, oom_kills: int = 0, unreadable: str = "") -> EngineDeath:
    """Put an exit status and a log into words.

    Args:
        returncode: as in subprocess: negative for a signal, None if it would not end.
        oom_kills: how often the system's out-of-memory killer struck while the engine ran.
        unreadable: what was wrong with the channel, if that is why the engine was ended.
    """
    tail = log_tail(log)
    return EngineDeath(reason=_reason(returncode, tail, oom_kills, unreadable), log_tail=tail)


def _reason(returncode: int | None, tail: tuple[str, ...], oom_kills: int, unreadable: str) -> str:
    if unreadable:
        return f"The engine was ended because its messages could not be read: {unreadable}."
    if returncode is None:
        return "The engine closed its channel but does not end."
    if returncode < 0:
        return f"The engine {ended_by(-returncode, out_of_memory=oom_kills > 0)}."
    if returncode == ENDED_BY_SIGTERM:
        return f"The engine {ended_by(signal.SIGTERM)}."
    if returncode == 0:
        return "The engine ended by itself."
    said = _last_error(tail)
    return f"The engine ended with code {returncode}" + (f": {said}" if said else ".")


def _last_error(tail: tuple[str, ...]) -> str:
    """The last line that reads like an exception's, as `KeyError: 'x'` does."""
    for line in reversed(tail):
        name, colon, _ = line.partition(":")
        if colon and name.replace(".", "").replace("_", "").isalnum() and not line.startswith(" "):
            return line
    return ""


def log_tail(path: Path, *, lines: int = LOG_TAIL_LINES) -> tuple[str, ...]:
    """The last lines of a log; bytes that are not text and control characters are replaced."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    kept = [line for line in text.splitlines() if line.strip()][-lines:]
    return tuple(
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line.expandtabs(4))
        for line in kept
    )


def oom_kills() -> int:
    """How many processes the kernel's out-of-memory killer has ended since boot (0 where it does not say)."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def wait_for_end(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """The exit status, or None if the process still runs after `timeout_s`."""
    try:
        return process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return None
