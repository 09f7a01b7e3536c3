"""NVIDIA's management library, with every unanswered question turned into None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_MAX_NVLINKS = 18
_SWITCH = 2  # nvmlIntNvLinkDeviceType: the link goes to an NVSwitch, which reaches every GPU
_PCIE_WORDS = {
    0: "same board",
    10: "PIX",
    20: "PXB",
    30: "PHB",
    40: "NODE",
    50: "SYS",
}  # as nvidia-smi names them


@dataclass(frozen=True)
class Nvml:
    """The initialised library. Handles are opaque."""

    lib: ModuleType

    @classmethod
    def open(cls) -> Nvml | None:
        """Initialise it; None on a machine without an NVIDIA driver."""
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # not installed, no driver, driver mismatch: all mean there is nothing to ask
            return None
        return cls(pynvml)

    def ask(self, question: str, *args: Any) -> Any:
        """Call `nvml<question>`; None if this device, driver or container does not answer."""
        function: Callable[..., Any] | None = getattr(self.lib, f"nvml{question}", None)
        if function is None:
            return None
        try:
            return function(*args)
        except self.lib.NVMLError:
            return None

    def handles(self, uuids: tuple[str, ...] | None = None) -> list[Any]:
        """Handles of the GPUs in the order of `uuids` (None where unknown), or in the driver's own order."""
        if uuids is not None:
            return [self.ask("DeviceGetHandleByUUID", uuid) for uuid in uuids]
        return [self.ask("DeviceGetHandleByIndex", i) for i in range(self.ask("DeviceGetCount") or 0)]

    def compute_processes(self, handle: Any, own_pid: int) -> int | None:
        """How many other processes compute on this GPU."""
        found = self.ask("DeviceGetComputeRunningProcesses", handle)
        return None if found is None else sum(process.pid != own_pid for process in found)

    def link(self, first: Any, second: Any) -> str | None:
        """How two GPUs reach each other, in nvidia-smi's words: "NV18", "PHB", …"""
        if first is None or second is None:
            return None
        if nvlinks := self._nvlinks(first, second):
            return f"NV{nvlinks}"
        return _PCIE_WORDS.get(self.ask("DeviceGetTopologyCommonAncestor", first, second))

    def _nvlinks(self, first: Any, second: Any) -> int:
        peer = getattr(self.ask("DeviceGetPciInfo", second), "busId", None)
        return sum(self._joins(first, link, peer) for link in range(_MAX_NVLINKS))

    def _joins(self, handle: Any, link: int, peer: Any) -> bool:
        if not self.ask("DeviceGetNvLinkState", handle, link):
            return False
        if self.ask("DeviceGetNvLinkRemoteDeviceType", handle, link) == _SWITCH:
            return True
        remote = self.ask("DeviceGetNvLinkRemotePciInfo", handle, link)
        return remote is not None and remote.busId == peer
