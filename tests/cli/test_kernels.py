"""`specmon kernels` from the outside: tables, exit codes, and what is said where it cannot run."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specmon.kernels.offline.compiled import Compiled
from specmon.kernels.offline.launches import Launch
from specmon.kernels.stream import schedule as schedules
from specmon.kernels.stream.schedule import SCHEDULES, Schedule, ScheduleTable, shipped_table
from specmon.kernels.stream.shapes import Matmul
from specmon.kernels.tune.search import Found
from specmon.tui.commands import kernels

FORMATS = (("w_ptr", "bf16"),)


def kernel(families: tuple[str, ...], **measured: int) -> Compiled:
    launch = Launch(
        kernel="specmon.kernels.stream.matmul:head_kernel",
        arch=90,
        formats=FORMATS,
        constants=(("N", 64), ("WRITE", False), ("PDL", True)),
        warps=4,
        specialization="",
    )
    return Compiled(launch=launch, families=families, registers=96, shared_bytes=2048, **measured)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Compiled], None]:
    def give(one: Compiled) -> None:
        monkeypatch.setattr(kernels, "_compile_all", lambda architectures: [(one, ("qwen2.5-7b",))])

    return give


def test_check_shows_a_row_a_kernel_and_shape(
    cli: Callable[..., Any], compiled: Callable[[Compiled], None]
) -> None:
    compiled(kernel(("wgmma bf16",)))
    code, out, err = cli("kernels", "check")
    assert (code, err) == (0, "")
    assert "head_kernel\n  N=64 PDL warps=4  (qwen2.5-7b)\n" in out
    assert "sm_90   wgmma bf16     96 registers    0 B spilled    2.0 KiB shared\n" in out


def test_check_fails_with_one_line_a_fault(
    cli: Callable[..., Any], compiled: Callable[[Compiled], None]
) -> None:
    compiled(kernel(("mma.sync fp16",), stack_bytes=16))
    code, out, err = cli("kernels", "check")
    assert code == 1
    assert "WRONG" in out
    assert err.splitlines() == [
        "specmon: head_kernel [N=64 PDL warps=4] on sm_90 runs mma.sync fp16 where wgmma bf16 is meant.",
        "specmon: head_kernel [N=64 PDL warps=4] on sm_90 spills 16 bytes a thread.",
    ]


def test_check_prints_one_json_object(cli: Callable[..., Any], compiled: Callable[[Compiled], None]) -> None:
    compiled(kernel(("wgmma bf16",)))
    code, out, _ = cli("kernels", "check", "--json")
    found = json.loads(out)
    assert (code, found["ok"]) == (0, True)
    assert found["rows"][0]["kernel"] == "head_kernel"
    assert found["rows"][0]["constants"] == {"N": 64, "WRITE": False, "PDL": True}


@pytest.mark.parametrize("wrong", ["80", "sm_ninety", ""])
def test_check_names_the_architectures_it_knows(cli: Callable[..., Any], wrong: str) -> None:
    code, out, err = cli("kernels", "check", "--arch", wrong)
    assert (code, out) == (2, "")
    assert "90, 100, 103" in err


def test_check_says_what_to_install_without_triton(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "triton" else there(name, *rest)
    )
    code, out, err = cli("kernels", "check")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "triton is not installed" in err
    assert "specmon[engine]" in err


def test_check_says_when_a_compiler_takes_its_process_with_it(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(ThreadPoolExecutor):
        def __init__(self, folder: Path) -> None:
            assert folder.is_dir()
            super().__init__(1)

        def map(self, *what: Any, **how: Any) -> Any:
            raise BrokenExecutor("a process was terminated abruptly")

    monkeypatch.setattr("specmon.kernels.offline.workers.compilers", Dying)
    code, out, err = cli("kernels", "check", "--arch", "90")
    assert (code, out) == (1, "")
    assert "A compiling process died" in err


def test_only_what_has_ptx_of_its_own_on_sm_103_is_compiled_twice(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = (replace(kernel(()).launch, kernel=f"somewhere:{name}") for name in ("own", "shared"))
    ran: list[tuple[str, int, tuple[int, ...]]] = []

    def compiled(launch: Launch, twins: tuple[int, ...]) -> list[Compiled]:
        ran.append((launch.name, launch.arch, twins))
        return [Compiled(launch=one) for one in (launch, *map(launch.on, twins))]

    monkeypatch.setattr("specmon.kernels.offline.workers.compilers", lambda folder: ThreadPoolExecutor(1))
    monkeypatch.setattr(
        "specmon.core.models.launches.model_launches",
        lambda shape, arch: [replace(own, arch=arch), replace(shared, arch=arch)],
    )
    monkeypatch.setattr(
        "specmon.kernels.offline.twins.makes_same_ptx", lambda launch, arch: launch.name == "shared"
    )
    monkeypatch.setattr("specmon.kernels.offline.compiled.compiled", compiled)
    _, out, err = cli("kernels", "check", "--json")

    assert {(row["kernel"], row["arch"]) for row in json.loads(out)["rows"]} == {
        (name, arch) for name in ("own", "shared") for arch in (90, 100, 103)
    }
    assert sorted(ran) == [
        ("own", 90, ()), ("own", 100, ()), ("own", 103, ()), ("shared", 90, ()), ("shared", 100, (103,)),
    ]  # fmt: skip
    assert "specmon: kernels: 5 of 5 compiled" in err


def test_tune_says_that_it_needs_a_gpu(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, err = cli("kernels", "tune")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "CUDA GPU" in err


@pytest.mark.parametrize(("option", "value"), [("--shape", "qwen9"), ("--op", "conv")])
def test_tune_names_what_it_knows(cli: Callable[..., Any], option: str, value: str) -> None:
    code, _, err = cli("kernels", "tune", option, value)
    assert code == 2
    assert repr(value) in err
    assert "Choose " in err


@pytest.fixture
def tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GPU on which gate_up is faster with other stages, qkv with another split, and nothing else; the file to write."""

    def tuned(matmul: Matmul, new_version: bool, rounds: int) -> Found:
        now = matmul.schedule
        best, same = now, True
        if matmul.op == "gate_up":
            best = Schedule(bn=now.bn, bk=now.bk, stages=now.stages + 1)
        if matmul.op == "qkv" and new_version:
            best, same = Schedule(bn=now.bn, bk=now.bk, split=now.split + 1), False
        return Found(
            current=now,
            current_us=9.0,
            best=best,
            best_us=8.0,
            same_bits=same,
            tried=3,
            refused=1,
            other_bits=0,
        )

    file = tmp_path / "schedules.toml"
    file.write_text(SCHEDULES.read_text())
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(kernels, "_tuned", tuned)
    monkeypatch.setattr(schedules, "SCHEDULES", file)
    return file


def test_tune_writes_winners_only_when_asked(cli: Callable[..., Any], tuning: Path) -> None:
    before = tuning.read_text()
    code, out, _ = cli("kernels", "tune", "--shape", "smollm2-135m")
    assert (code, out) == (0, "1 would change; --write keeps them.\n")
    assert tuning.read_text() == before

    code, out, _ = cli("kernels", "tune", "--shape", "smollm2-135m", "--write")
    assert code == 0
    assert out == f"1 schedules written to {tuning}.\n"
    written = ScheduleTable.read(tuning)
    assert written.version == shipped_table().version
    now = shipped_table().tuned["bf16"]
    changed = {shape for shape, schedule in written.tuned["bf16"].items() if schedule != now.get(shape)}
    assert changed == {"gate_up 1536x576"}


def test_other_bits_make_a_new_backend_version(cli: Callable[..., Any], tuning: Path) -> None:
    code, out, _ = cli("kernels", "tune", "--shape", "smollm2-135m", "--write", "--new-version")
    version = shipped_table().version + 1
    assert code == 0
    # gate_up's, and those of qkv in the model and in an EAGLE-3 head for it
    assert f"3 schedules written to {tuning}; the Triton backend is version {version} now." in out
    assert ScheduleTable.read(tuning).version == version


def test_an_interrupted_search_keeps_the_winners_it_found(
    cli: Callable[..., Any], tuning: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = kernels._tuned

    def until_head(matmul: Matmul, new_version: bool, rounds: int) -> Found:
        if matmul.op == "head":
            raise KeyboardInterrupt
        return tuned(matmul, new_version, rounds)

    monkeypatch.setattr(kernels, "_tuned", until_head)
    code, out, err = cli("kernels", "tune", "--shape", "smollm2-135m", "--write")
    assert (code, out) == (130, "")
    assert err == f"specmon: 1 schedules written to {tuning}.\n"
    assert ScheduleTable.read(tuning).tuned["bf16"]["gate_up 1536x576"].stages == 5


def test_tune_changes_nothing_where_nothing_is_faster(cli: Callable[..., Any], tuning: Path) -> None:
    code, out, _ = cli("kernels", "tune", "--op", "down", "--write")
    assert (code, out) == (0, "Every schedule in use stays.\n")
