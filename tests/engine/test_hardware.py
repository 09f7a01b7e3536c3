"""Choosing devices on machines of every shape, and reading what the system says of itself."""

from __future__ import annotations

import os

import pytest

from specmon.core import hardware
from specmon.core.errors import UsageError
from specmon.core.events import DeviceInfo
from specmon.core.hardware import Machine, link_between, resolve_devices, survey, target_devices, usable_cores


def machine(n_cores: int = 2, gpu_processes: tuple[int | None, ...] = ()) -> Machine:
    return Machine(
        cores=tuple(range(n_cores)),
        cpus=tuple(DeviceInfo(name=f"cpu:{n}", model="c") for n in range(n_cores)),
        gpus=tuple(
            DeviceInfo(name=f"cuda:{n}", model="g", other_processes=count)
            for n, count in enumerate(gpu_processes)
        ),
    )


@pytest.mark.parametrize(
    ("found", "names", "notes"),
    [
        (machine(), ("cpu:0", "cpu:1"), ()),
        (machine(8), ("cpu:0", "cpu:1"), ()),
        (machine(1), ("cpu:0",), ()),
        (machine(2, (0, 0, 0)), ("cuda:0", "cuda:1"), ()),
        (machine(2, (0,)), ("cuda:0",), ()),
        (machine(2, (None, None)), ("cuda:0", "cuda:1"), ()),
        (machine(2, (1, 0, 0)), ("cuda:1", "cuda:2"), ("Skipped cuda:0: in use by other processes.",)),
        (machine(2, (3, 0)), ("cuda:1",), ("Skipped cuda:0: in use by other processes.",)),
        (machine(2, (1, 1)), ("cpu:0", "cpu:1"), ("Skipped cuda:0, cuda:1: in use by other processes.",)),
    ],
)
def test_auto_takes_two_gpus_else_one_else_cores(found, names, notes):
    resolved = resolve_devices("auto", found)
    assert resolved.names == names
    assert resolved.notes == notes


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("cpu:1", ("cpu:1",)),
        ("cpu:1,cpu:0", ("cpu:1", "cpu:0")),
        (" cuda:1 , cuda:0 ", ("cuda:1", "cuda:0")),
        ("cuda:0,cuda:0", ("cuda:0",)),
        ("cpu:2,cpu:0,cpu:1", ("cpu:2", "cpu:0", "cpu:1")),
    ],
)
def test_named_devices_are_taken_in_their_order(wanted, names):
    assert resolve_devices(wanted, machine(3, (0, 0))).names == names


@pytest.mark.parametrize(
    ("names", "of_target"),
    [
        (("cuda:0",), ("cuda:0",)),
        (("cuda:0", "cuda:1"), ("cuda:0",)),
        (("cuda:0", "cuda:1", "cuda:2"), ("cuda:0", "cuda:1")),
    ],
)
def test_the_draft_has_the_last_of_several_devices(names, of_target):
    assert target_devices(names) == of_target


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("cuda:2", "no device 'cuda:2'"),
        ("cpu:7", "no device 'cpu:7'"),
        ("gpu", "no device 'gpu'"),
        ("", "no device ''"),
        ("cpu:0,", "no device ''"),
        ("cuda:0,cpu:0", "different kinds"),
        ("cuda:0,cuda:1,cpu:0", "different kinds"),
        ("cpu:0,cpu:1,cpu:0", "names a device twice"),
    ],
)
def test_devices_that_cannot_be_used_are_a_usage_error(wanted, said):
    with pytest.raises(UsageError, match=said) as raised:
        resolve_devices(wanted, machine(4, (0, 0)))
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)


def test_an_unknown_device_names_those_that_exist():
    with pytest.raises(UsageError, match="It has cuda:0, cpu:0, cpu:1"):
        resolve_devices("cuda:1", machine(2, (0,)))


def test_a_busy_gpu_asked_for_by_name_is_used_and_said():
    resolved = resolve_devices("cuda:0,cuda:1", machine(2, (0, 2)))
    assert resolved.names == ("cuda:0", "cuda:1")
    assert resolved.notes == ("cuda:1 is in use by other processes too.",)


@pytest.fixture
def siblings(monkeypatch, tmp_path):
    """Pretend the process may use logical CPUs that share cores as given."""

    def pretend(groups: dict[int, str]) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(groups))
        monkeypatch.setattr(hardware, "_CPU_FOLDER", tmp_path)
        for cpu, text in groups.items():
            folder = tmp_path / f"cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(text + "\n")

    return pretend


def test_each_physical_core_counts_once(siblings):
    siblings({4: "4,6", 5: "5,7", 6: "4,6", 7: "5,7"})
    assert usable_cores() == (4, 5)


def test_two_threads_of_a_lone_core_are_two_devices(siblings):
    siblings({2: "2-3", 3: "2-3"})
    assert usable_cores() == (2, 3)


def test_survey_describes_this_machine():
    found = survey(gpu_uuids=())
    assert found.gpus == ()
    assert len(found.cores) == len(found.cpus) >= 1
    assert found.core_of["cpu:0"] in os.sched_getaffinity(0)
    assert found.cpus[0].model
    assert (found.cpus[0].memory_bytes or 1) > 0


def test_cache_size_is_that_of_the_largest_level(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "_CPU_FOLDER", tmp_path)
    for index, (level, size) in enumerate([("1", "48K"), ("2", "2048K"), ("3", "36M"), ("4", "huge")]):
        folder = tmp_path / f"cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(level)
        (folder / "size").write_text(size)
    assert hardware.last_level_cache_bytes(0) == 36 << 20
    assert hardware.last_level_cache_bytes(1) is None


def test_memory_is_no_more_than_the_container_may_use(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(hardware, "_CGROUP_MEMORY", limit)
    limit.write_text("1048576\n")
    assert hardware.memory_bytes() == 1 << 20
    limit.write_text("max\n")
    assert (hardware.memory_bytes() or 0) > 1 << 20


def test_cpu_devices_meet_in_shared_memory_and_one_device_needs_no_link():
    assert link_between(("cpu:0", "cpu:1")) == "shared memory"
    assert link_between(("cuda:0",)) is None
