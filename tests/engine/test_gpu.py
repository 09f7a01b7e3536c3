"""On CUDA devices: what the survey, the ceilings and the counters say of real hardware."""

from __future__ import annotations

import threading

import pytest

from specmon.core.events import Telemetry
from specmon.core.hardware import link_between, resolve_devices, survey
from specmon.core.telemetry import TelemetryThread

torch = pytest.importorskip("torch", reason="needs torch")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")


@pytest.fixture(scope="module")
def uuids():
    from specmon.core.ceilings import cuda_uuids

    return cuda_uuids()


@pytest.mark.gpu
@needs_gpu
def test_survey_finds_the_gpus_in_torch_order(uuids):
    machine = survey(uuids)
    assert [gpu.model for gpu in machine.gpus] == [torch.cuda.get_device_name(i) for i in range(len(uuids))]
    for gpu in machine.gpus:
        assert gpu.memory_bytes
        assert gpu.sm_clock_mhz
        assert gpu.power_cap_w


@pytest.mark.gpu
@needs_gpu
def test_read_ceiling_is_below_what_the_memory_clock_allows(uuids):
    from specmon.core.ceilings import cache_bytes, measure_ceilings

    machine = survey(uuids)
    rates, source = measure_ceilings(("cuda:0",), machine)
    clock_mhz = machine.gpus[0].memory_clock_mhz
    assert clock_mhz
    assert 0.2e12 < rates["cuda:0"] < clock_mhz * 1e6 * 2 * 8192 / 8
    assert "GiB" in source
    assert (cache_bytes("cuda:0", machine) or 0) >= 1 << 20


@pytest.mark.gpu
@needs_gpu
def test_telemetry_gives_power_clocks_and_bandwidth(uuids):
    seen: list[Telemetry] = []
    enough = threading.Event()

    def emit(event: Telemetry) -> None:
        seen.append(event)
        if len(seen) >= 5:
            enough.set()

    thread = TelemetryThread(("cuda:0",), emit=emit, clock=lambda: 0, gpu_uuids=uuids)
    buffer = torch.ones(1 << 28, device="cuda:0")
    thread.start()
    while not enough.is_set():
        torch.sum(buffer).item()
    thread.stop()
    assert all(event.power_w and event.sm_clock_mhz for event in seen)
    if seen[-1].note is None:
        assert 0.1 < (seen[-1].dram_fraction or 0) <= 1


@pytest.mark.gpu2
@needs_two
def test_two_gpus_have_a_named_link(uuids):
    assert link_between(("cuda:0", "cuda:1"), uuids)
    assert resolve_devices("cuda:0,cuda:1", survey(uuids)).names == ("cuda:0", "cuda:1")
