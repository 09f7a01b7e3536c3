"""Counters of each CUDA device, read about five times a second. A CPU has none: no thread, no events.

DRAM bandwidth comes from GPM (Hopper and newer) as the difference of two samples; streaming, which changes
the host's state, is never enabled. A counter that does not answer is None and the note says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from specmon.core.events import Telemetry
from specmon.core.nvml import Nvml

PERIOD_S = 0.2
_NO_DRAM = "no DRAM bandwidth: GPM needs a Hopper or newer GPU"
_LOST_DRAM = "no DRAM bandwidth: GPM stopped answering"

#: nvmlClocksEventReasons by bit; an idle GPU is not throttled.
THROTTLE_REASONS = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x100: "display clocks",
}


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """The reasons a clock is held down, in words."""
    return tuple(words for bit, words in THROTTLE_REASONS.items() if bits & bit)


class TelemetryThread:
    """Emits a `Telemetry` event per CUDA device every `PERIOD_S` until stopped."""

    def __init__(
        self,
        names: tuple[str, ...],
        *,
        emit: Callable[[Telemetry], None],
        clock: Callable[[], int],
        gpu_uuids: tuple[str, ...] | None = None,
    ) -> None:
        nvml = Nvml.open() if any(name.startswith("cuda:") for name in names) else None
        self._meters = _meters(nvml, names, gpu_uuids) if nvml else []
        self._emit = emit
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Begin; does nothing where no device has counters."""
        if self._meters:
            self._thread.start()

    def stop(self) -> None:
        """End the thread and free what NVML lent."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        for meter in self._meters:
            meter.close()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_S):
            for meter in self._meters:
                self._emit(meter.read(self._clock()))


def _meters(nvml: Nvml, names: tuple[str, ...], gpu_uuids: tuple[str, ...] | None) -> list[GpuMeter]:
    handles = nvml.handles(gpu_uuids)
    found = ((name, handles[int(name.removeprefix("cuda:"))]) for name in names)
    return [GpuMeter(nvml, handle, name) for name, handle in found if handle is not None]


class GpuMeter:
    """Reads one GPU."""

    def __init__(self, nvml: Nvml, handle: Any, name: str) -> None:
        self._nvml = nvml
        self._handle = handle
        self._name = name
        self._dram = DramMeter.open(nvml, handle)
        self._had_dram = self._dram is not None

    def read(self, t: int) -> Telemetry:
        """All counters now; `t` is the event's time."""
        ask, handle, lib = self._nvml.ask, self._handle, self._nvml.lib
        power_mw = ask("DeviceGetPowerUsage", handle)
        memory = ask("DeviceGetMemoryInfo", handle)
        throttle = ask("DeviceGetCurrentClocksEventReasons", handle)
        dram_fraction = self._read_dram()
        return Telemetry(
            t=t,
            device=self._name,
            sm_clock_mhz=ask("DeviceGetClockInfo", handle, lib.NVML_CLOCK_SM),
            memory_clock_mhz=ask("DeviceGetClockInfo", handle, lib.NVML_CLOCK_MEM),
            power_w=None if power_mw is None else power_mw / 1000,
            temperature_c=ask("DeviceGetTemperature", handle, lib.NVML_TEMPERATURE_GPU),
            throttle=None if throttle is None else throttle_reasons(throttle),
            memory_used_bytes=None if memory is None else int(memory.used),
            dram_fraction=dram_fraction,
            link_tx_bytes=self._nvlink_bytes(lib.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
            link_rx_bytes=self._nvlink_bytes(lib.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
            note=None if self._dram else (_LOST_DRAM if self._had_dram else _NO_DRAM),
        )

    def close(self) -> None:
        """Give the samples back."""
        if self._dram:
            self._dram.close()

    def _read_dram(self) -> float | None:
        """DRAM utilisation since the last read; a failure closes this counter for good."""
        if self._dram is None:
            return None
        try:
            return self._dram.read()
        except self._nvml.lib.NVMLError:
            self.close()
            self._dram = None
            return None

    def _nvlink_bytes(self, field: int) -> int | None:
        """A cumulative NVLink payload counter, over all links (NVML counts KiB)."""
        lib = self._nvml.lib
        values = self._nvml.ask("DeviceGetFieldValues", self._handle, [(field, 0xFFFFFFFF)])
        if not values or values[0].nvmlReturn != lib.NVML_SUCCESS:
            return None
        return int(values[0].value.ullVal) << 10


class DramMeter:
    """Two GPM samples used in turn: each reading covers the time since the one before."""

    def __init__(self, nvml: Nvml, handle: Any, samples: list[Any]) -> None:
        self._lib = nvml.lib
        self._handle = handle
        self._before, self._after = samples

    @classmethod
    def open(cls, nvml: Nvml, handle: Any) -> DramMeter | None:
        """Take the first sample; None where the GPU has no GPM or does not let us."""
        support = nvml.ask("GpmQueryDeviceSupport", handle)
        if not support or not support.isSupportedDevice:
            return None
        samples = [nvml.ask("GpmSampleAlloc") for _ in range(2)]
        if None in samples or nvml.ask("GpmSampleGet", handle, samples[0]) is None:
            return None
        return cls(nvml, handle, samples)

    def read(self) -> float | None:
        """Fraction (0..1) of peak DRAM bandwidth since the last read; None if the driver gives no value.

        Raises: pynvml.NVMLError once GPM does not answer.
        """
        lib = self._lib
        lib.nvmlGpmSampleGet(self._handle, self._after)
        request = lib.c_nvmlGpmMetricsGet_t()
        request.version = lib.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = 1
        request.sample1, request.sample2 = self._before, self._after
        request.metrics[0].metricId = lib.NVML_GPM_METRIC_DRAM_BW_UTIL
        lib.nvmlGpmMetricsGet(request)
        self._before, self._after = self._after, self._before
        metric = request.metrics[0]
        return metric.value / 100 if metric.nvmlReturn == lib.NVML_SUCCESS else None

    def close(self) -> None:
        """Free both samples."""
        for sample in (self._before, self._after):
            self._lib.nvmlGpmSampleFree(sample)
