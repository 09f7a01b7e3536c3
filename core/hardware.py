"""What this machine has to decode on, and which of it a run uses. Torch-free.

A CPU device is one core: `cpu:N` is the N-th core this process may use, each physical core counted once where
there are at least two. `cuda:N` counts as CUDA does.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from specmon.core.errors import UsageError
from specmon.core.events import DeviceInfo
from specmon.core.nvml import Nvml

_CPU_FOLDER = Path("/sys/devices/system/cpu")
_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, kw_only=True)
class ResolvedDevices:
    """The devices of a run, target's first; one name if both roles share it. `notes` are for the user."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What was found. `cores[n]` is the logical CPU behind `cpu:n`."""

    cores: tuple[int, ...]
    cpus: tuple[DeviceInfo, ...]
    gpus: tuple[DeviceInfo, ...] = ()

    @property
    def devices(self) -> dict[str, DeviceInfo]:
        """Every device by name, GPUs first."""
        return {device.name: device for device in (*self.gpus, *self.cpus)}

    @property
    def core_of(self) -> dict[str, int]:
        """The logical CPU behind each `cpu:N`."""
        return {f"cpu:{n}": core for n, core in enumerate(self.cores)}


def survey(gpu_uuids: tuple[str, ...] | None = None) -> Machine:
    """Look at the machine.

    Args:
        gpu_uuids: the GPUs in CUDA's order, as torch gives them; () where CUDA cannot be used. None: the
            driver's order, for use without torch.
    """
    cores = usable_cores()
    llc_bytes = last_level_cache_bytes(cores[0])
    cpu = DeviceInfo(name="", model=cpu_model(), memory_bytes=memory_bytes(), llc_bytes=llc_bytes)
    cpus = tuple(msgspec.structs.replace(cpu, name=f"cpu:{n}") for n in range(len(cores)))
    return Machine(cores=cores, cpus=cpus, gpus=_gpus(gpu_uuids))


def resolve_devices(wanted: str, machine: Machine | None = None) -> ResolvedDevices:
    """Turn a `--devices` value ("auto" or names) into devices of this machine: the target's, then the draft's.

    Raises: UsageError for a device that does not exist, or several of different kinds.
    """
    machine = machine or survey()
    if wanted.strip() == "auto":
        return _choose(machine)
    names = tuple(dict.fromkeys(name.strip() for name in wanted.split(",")))
    for name in names:
        if name not in machine.devices:
            raise UsageError(
                f"There is no device {name!r} on this machine.",
                f"It has {', '.join(machine.devices)}; or say auto.",
            )
    if len(names) > 1 and len(names) < len(wanted.split(",")):
        raise UsageError(f"--devices {wanted} names a device twice.", "Name each once.")
    if len({name.split(":")[0] for name in names}) > 1:
        raise UsageError(f"{' and '.join(names)} are of different kinds.", "Give CUDA devices or CPU cores.")
    busy = [f"{name} is in use by other processes too." for name in names if _is_busy(machine.devices[name])]
    return ResolvedDevices(names=names, notes=tuple(busy))


def target_devices(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a lane's devices that hold the target: the first, and of more than two all but the last."""
    return names[:1] if len(names) <= 2 else names[:-1]


def _choose(machine: Machine) -> ResolvedDevices:
    busy = [gpu.name for gpu in machine.gpus if _is_busy(gpu)]
    free = [gpu.name for gpu in machine.gpus if gpu.name not in busy]
    skipped = (f"Skipped {', '.join(busy)}: in use by other processes.",) if busy else ()
    names = tuple(free[:2]) or tuple(cpu.name for cpu in machine.cpus[:2])
    return ResolvedDevices(names=names, notes=skipped)


def _is_busy(gpu: DeviceInfo) -> bool:
    return bool(gpu.other_processes)


def usable_cores() -> tuple[int, ...]:
    """One logical CPU of each physical core this process may use; all of them if that leaves only one."""
    allowed = (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    physical: dict[str, int] = {}
    for cpu in allowed:
        physical.setdefault(_read(_CPU_FOLDER / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu), cpu)
    return tuple(physical.values()) if len(physical) > 1 else tuple(allowed)


def cpu_model() -> str:
    """What the vendor calls the processor."""
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine() or "CPU"


def last_level_cache_bytes(cpu: int) -> int | None:
    """Size of the largest-level cache of a logical CPU; None where the system does not say."""
    sizes: dict[int, int] = {}
    for index in (_CPU_FOLDER / f"cpu{cpu}/cache").glob("index*"):
        level, size = _read(index / "level"), _read(index / "size")
        if level and size and size[-1] in "KMG" and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
    return sizes[max(sizes)] if sizes else None


def memory_bytes() -> int | None:
    """Memory of the machine, or of the container where that is less."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    limit = _read(_CGROUP_MEMORY)
    return min(physical, int(limit)) if limit and limit.isdigit() else physical


def link_between(names: tuple[str, ...], gpu_uuids: tuple[str, ...] | None = None) -> str | None:
    """How two devices reach each other ("NV18", "PHB", "shared memory"); None for one or where unknown."""
    if len(names) < 2:
        return None
    if names[0].startswith("cpu:"):
        return "shared memory"
    if (nvml := Nvml.open()) is None:
        return None
    first, second = (int(name.removeprefix("cuda:")) for name in names[:2])
    handles = nvml.handles(gpu_uuids)
    return nvml.link(handles[first], handles[second])


def _gpus(uuids: tuple[str, ...] | None) -> tuple[DeviceInfo, ...]:
    if uuids == () or (nvml := Nvml.open()) is None:
        return ()
    return tuple(_gpu(nvml, handle, f"cuda:{n}") for n, handle in enumerate(nvml.handles(uuids)))


def _gpu(nvml: Nvml, handle: Any, name: str) -> DeviceInfo:
    lib = nvml.lib
    memory = nvml.ask("DeviceGetMemoryInfo", handle)
    power_mw = nvml.ask("DeviceGetEnforcedPowerLimit", handle)
    return DeviceInfo(
        name=name,
        model=nvml.ask("DeviceGetName", handle) or "NVIDIA GPU",
        memory_bytes=memory and int(memory.total),
        sm_clock_mhz=nvml.ask("DeviceGetMaxClockInfo", handle, lib.NVML_CLOCK_SM),
        memory_clock_mhz=nvml.ask("DeviceGetMaxClockInfo", handle, lib.NVML_CLOCK_MEM),
        power_cap_w=power_mw and power_mw / 1000,
        other_processes=nvml.compute_processes(handle, os.getpid()),
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
