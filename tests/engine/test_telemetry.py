"""Counters against a stand-in for NVML: what is answered, what is not, what stops answering."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from specmon.core.nvml import Nvml
from specmon.core.telemetry import GpuMeter, TelemetryThread, throttle_reasons


class NVMLError(Exception):
    pass


def library(**answers: Any) -> Any:
    """A module like pynvml whose functions give these values, or raise them."""

    def function(value: Any) -> Any:
        def call(*args: Any) -> Any:
            if isinstance(value, Exception):
                raise value
            return value(*args) if callable(value) else value

        return call

    names = ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_TEMPERATURE_GPU")
    fields = {name: i for i, name in enumerate(names)} | {
        "NVML_SUCCESS": 0,
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": 138,
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX": 139,
        "NVML_GPM_METRICS_GET_VERSION": 1,
        "NVML_GPM_METRIC_DRAM_BW_UTIL": 10,
        "c_nvmlGpmMetricsGet_t": lambda: SimpleNamespace(metrics=[SimpleNamespace()]),
    }
    return SimpleNamespace(
        NVMLError=NVMLError, **fields, **{f"nvml{name}": function(value) for name, value in answers.items()}
    )


def gpm(values: list[float | Exception]) -> dict[str, Any]:
    """Answers of a GPM whose readings are these."""
    left = iter(values)

    def metrics_get(request: Any) -> None:
        value = next(left)
        if isinstance(value, Exception):
            raise value
        request.metrics[0].value = value
        request.metrics[0].nvmlReturn = 0

    return {
        "GpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=1),
        "GpmSampleAlloc": lambda: object(),
        "GpmSampleGet": lambda handle, sample: sample,
        "GpmSampleFree": None,
        "GpmMetricsGet": metrics_get,
    }


ANSWERS: dict[str, Any] = {
    "DeviceGetClockInfo": lambda handle, kind: 1980 if kind == 0 else 3201,
    "DeviceGetPowerUsage": 412_500,
    "DeviceGetTemperature": 51,
    "DeviceGetCurrentClocksEventReasons": 0x1 | 0x4 | 0x40,
    "DeviceGetMemoryInfo": SimpleNamespace(used=5 << 30, total=141 << 30),
    "DeviceGetFieldValues": lambda handle, fields: [
        SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=fields[0][0]))
    ],
}


def test_all_counters_are_read():
    meter = GpuMeter(Nvml(library(**ANSWERS, **gpm([87.0, 12.5]))), object(), "cuda:0")
    event = meter.read(7)
    assert (event.t, event.device) == (7, "cuda:0")
    assert (event.sm_clock_mhz, event.memory_clock_mhz) == (1980, 3201)
    assert (event.power_w, event.temperature_c, event.memory_used_bytes) == (412.5, 51, 5 << 30)
    assert event.throttle == ("power cap", "hardware thermal")
    assert event.dram_fraction == 0.87
    assert (event.link_tx_bytes, event.link_rx_bytes) == (138 << 10, 139 << 10)
    assert event.note is None
    assert meter.read(8).dram_fraction == 0.125


def test_counters_that_do_not_answer_are_none_and_never_zero():
    meter = GpuMeter(Nvml(library(DeviceGetPowerUsage=NVMLError())), object(), "cuda:0")
    event = meter.read(0)
    counters = [getattr(event, name) for name in event.__struct_fields__[4:-1]]
    assert counters == [None] * len(counters)
    assert event.note == "no DRAM bandwidth: GPM needs a Hopper or newer GPU"


def test_gpm_that_stops_answering_is_given_up_with_a_note():
    freed: list[object] = []
    answers = gpm([50.0, NVMLError(), 60.0]) | {"GpmSampleFree": freed.append}
    meter = GpuMeter(Nvml(library(**ANSWERS, **answers)), object(), "cuda:0")
    assert meter.read(0).dram_fraction == 0.5
    lost = meter.read(1)
    assert lost.dram_fraction is None
    assert lost.note == "no DRAM bandwidth: GPM stopped answering"
    assert lost.power_w == 412.5
    assert meter.read(2).dram_fraction is None
    meter.close()
    assert len(freed) == 2


def test_streaming_is_never_enabled():
    def refuse(*args: Any) -> None:
        raise AssertionError("host state must not change")

    answers = ANSWERS | gpm([1.0]) | {"GpmSetStreamingEnabled": refuse}
    GpuMeter(Nvml(library(**answers)), object(), "cuda:0").read(0)


@pytest.mark.parametrize(("bits", "words"), [(0, ()), (0x1, ()), (0x84, ("power cap", "power brake"))])
def test_throttle_reasons_in_words(bits, words):
    assert throttle_reasons(bits) == words


def test_cpu_devices_have_no_telemetry(monkeypatch):
    monkeypatch.setattr(Nvml, "open", lambda: pytest.fail("NVML was asked on a CPU run"))
    thread = TelemetryThread(("cpu:0", "cpu:1"), emit=pytest.fail, clock=lambda: 0)
    thread.start()
    thread.stop()


def test_thread_reads_every_device_and_stops(monkeypatch):
    monkeypatch.setattr(
        Nvml, "open", lambda: Nvml(library(**ANSWERS, DeviceGetHandleByUUID=lambda uuid: uuid))
    )
    monkeypatch.setattr("specmon.core.telemetry.PERIOD_S", 0.001)
    seen: list[str] = []
    both = threading.Event()

    def emit(event: Any) -> None:
        seen.append(event.device)
        if {"cuda:0", "cuda:1"} <= set(seen):
            both.set()

    thread = TelemetryThread(("cuda:0", "cuda:1"), emit=emit, clock=lambda: 0, gpu_uuids=("a", "b"))
    thread.start()
    assert both.wait(20.0)
    thread.stop()
    n = len(seen)
    assert not thread._thread.is_alive()
    assert len(seen) == n


def test_nvml_link_counts_nvlinks_else_names_the_pcie_path():
    pci = SimpleNamespace(busId=b"0000:41:00.0")
    switch = library(
        DeviceGetPciInfo=pci,
        DeviceGetNvLinkState=lambda handle, link: 1 if link < 18 else 0,
        DeviceGetNvLinkRemoteDeviceType=2,
    )
    assert Nvml(switch).link("a", "b") == "NV18"
    bridge = library(
        DeviceGetPciInfo=pci,
        DeviceGetNvLinkState=lambda handle, link: 1 if link < 4 else 0,
        DeviceGetNvLinkRemoteDeviceType=0,
        DeviceGetNvLinkRemotePciInfo=lambda handle, link: SimpleNamespace(
            busId=pci.busId if link < 2 else b"0000:ff:00.0"
        ),
    )
    assert Nvml(bridge).link("a", "b") == "NV2"
    plain = library(DeviceGetNvLinkState=NVMLError(), DeviceGetTopologyCommonAncestor=30)
    assert Nvml(plain).link("a", "b") == "PHB"
    assert Nvml(library()).link("a", "b") is None
    assert Nvml(library()).link(None, "b") is None


def test_processes_of_others_are_counted_and_unknown_stays_none():
    processes = [SimpleNamespace(pid=10), SimpleNamespace(pid=11)]
    assert Nvml(library(DeviceGetComputeRunningProcesses=processes)).compute_processes("a", 10) == 1
    assert Nvml(library()).compute_processes("a", 10) is None
