"""How fast each device can read its memory, measured: the denominator of SOL.

The ceiling is the best of a few plain reads of a buffer that is written once; a copy would count both
directions, and a datasheet figure is never reached. Needs torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from specmon.core.events import DeviceInfo
from specmon.core.hardware import Machine

_CPU_BUFFER_BYTES = 256 << 20
_CPU_READS = 3
_CUDA_BUFFER_BYTES = 4 << 30
_CUDA_READS = 7


def cuda_uuids() -> tuple[str, ...]:
    """The UUIDs of the CUDA devices torch can use, in its order; () without any."""
    if not torch.cuda.is_available():
        return ()
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return tuple(f"GPU-{p.uuid}" for p in properties)


def measure_ceilings(names: tuple[str, ...], machine: Machine) -> tuple[dict[str, float], str]:
    """Read each device's memory for a moment.

    Returns: bytes/s by device, and a sentence on how it was measured.
    """
    at = time.strftime("%H:%M UTC", time.gmtime())
    if names[0].startswith("cuda:"):
        sizes = {name: _cuda_buffer_bytes(name) for name in names}
        rates = {name: _cuda_read(name, size) for name, size in sizes.items()}
        torch.cuda.empty_cache()
        return rates, f"read of {_gib(min(sizes.values()))}, best of {_CUDA_READS}, at {at}"
    buffer = torch.ones(_CPU_BUFFER_BYTES // 4)
    rates = _cpu_rates(names, machine, lambda: torch.dot(buffer, buffer), _CPU_BUFFER_BYTES)
    where = _cache_remark(machine.devices[names[0]])
    return rates, f"read of {_CPU_BUFFER_BYTES >> 20} MiB by one core{where}, best of {_CPU_READS}, at {at}"


def measure_copies(names: tuple[str, ...], machine: Machine) -> dict[str, float]:
    """Copy within each device's memory for a moment. Returns: bytes/s by device, both directions counted."""
    if names[0].startswith("cuda:"):
        return {name: _cuda_copy(name, _cuda_buffer_bytes(name)) for name in names}
    source = torch.ones(_CPU_BUFFER_BYTES // 4)
    target = torch.empty_like(source)
    return _cpu_rates(names, machine, lambda: target.copy_(source), 2 * _CPU_BUFFER_BYTES)


def cache_bytes(name: str, machine: Machine) -> int | None:
    """Size of the last cache before a device's memory."""
    if name.startswith("cuda:"):
        return int(torch.cuda.get_device_properties(torch.device(name)).L2_cache_size)
    return machine.devices[name].llc_bytes


def _cache_remark(cpu: DeviceInfo) -> str:
    if cpu.llc_bytes is None or cpu.llc_bytes < _CPU_BUFFER_BYTES:
        return ""
    return f" (within the last-level cache of {cpu.llc_bytes >> 20} MiB)"


def _cpu_rates(
    names: tuple[str, ...], machine: Machine, work: Callable[[], object], n_bytes: int
) -> dict[str, float]:
    """Bytes/s of `work` on each core in turn, on one thread; then back to the cores used before."""
    threads = torch.get_num_threads()
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    torch.set_num_threads(1)
    try:
        rates = {}
        for name in names:
            if allowed is not None:
                os.sched_setaffinity(0, {machine.core_of[name]})
            rates[name] = n_bytes / min(_seconds(work) for _ in range(_CPU_READS))
        return rates
    finally:
        torch.set_num_threads(threads)
        if allowed is not None:
            os.sched_setaffinity(0, allowed)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _cuda_buffer_bytes(name: str) -> int:
    free, _ = torch.cuda.mem_get_info(torch.device(name))
    return min(_CUDA_BUFFER_BYTES, free // 4) & ~0xFFFF


def _cuda_read(name: str, size: int) -> float:
    buffer = torch.zeros(size // 4, device=name)
    return size / _best_cuda_s(name, lambda: torch.sum(buffer))


def _cuda_copy(name: str, size: int) -> float:
    source = torch.zeros(size // 4, device=name)
    target = torch.empty_like(source)
    return 2 * size / _best_cuda_s(name, lambda: target.copy_(source))


def _best_cuda_s(name: str, work: Callable[[], object]) -> float:
    with torch.cuda.device(torch.device(name)):
        return min(_cuda_ms(work) for _ in range(_CUDA_READS)) / 1e3


def _cuda_ms(work: Callable[[], object]) -> float:
    make_event: Callable[..., Any] = torch.cuda.Event
    start, end = make_event(enable_timing=True), make_event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.3g} GiB"
