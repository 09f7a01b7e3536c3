"""Compiles schedules in many processes before a search runs them: the search then finds its kernels in Triton's cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from contextlib import suppress

from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.shapes import Matmul
from specmon.kernels.workers import workers


def compile_ahead(
    matmul: Matmul, schedules: Sequence[Schedule], device: str, progress: Callable[[int], None]
) -> None:
    """Run each schedule once on `device`, a processor core a process; one that does not compile is left to the search."""
    count = max(1, min(len(schedules), os.cpu_count() or 1))
    shares = [list(schedules[first::count]) for first in range(count)]
    with workers(count) as pool:
        done = 0
        for share in as_completed([pool.submit(_compile, matmul, share, device) for share in shares]):
            done += share.result()
            progress(done)


def _compile(matmul: Matmul, schedules: Sequence[Schedule], device: str) -> int:
    import torch

    from specmon.kernels.tune.bench import StreamBench

    with torch.inference_mode():
        bench = StreamBench(matmul, torch.device(device), weight_bytes=1)
        for schedule in schedules:
            # Triton, ptxas and the driver each raise their own kinds; the search counts them.
            with suppress(Exception):
                bench.output(schedule)
    return len(schedules)
