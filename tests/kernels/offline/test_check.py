"""Kernels that are not what they are meant to be fail the check; tiny ones, compiled for real."""

from __future__ import annotations

import importlib
from concurrent.futures import Executor

import pytest

from specmon.kernels.offline.compiled import Compiled, compiled
from specmon.kernels.offline.families import families
from specmon.kernels.offline.intents import Intent
from specmon.kernels.offline.launches import Launch, record_launches
from specmon.kernels.offline.report import SHARED_LIMIT, faults, rows
from specmon.kernels.offline.twins import makes_same_ptx

WEIGHTS = Intent(multiplies=("w_ptr",))
INTENTS = {"product_kernel": WEIGHTS, "sum_kernel": Intent()}
UNITS = {90: "wgmma", 100: "tcgen05"}


def build(pool: Executor, name: str, arch: int) -> Compiled:
    run = getattr(importlib.import_module("made_up_kernels"), name)
    [launch] = pool.submit(record_launches, run, arch).result()
    [kernel] = pool.submit(compiled, launch).result()
    return kernel


@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize(("name", "kind"), [("bf16", "bf16"), ("fp8_left", "e4m3")])
def test_a_kernel_that_is_what_it_is_meant_to_be_passes(
    compiling: Executor, name: str, kind: str, arch: int
) -> None:
    kernel = build(compiling, name, arch)
    assert kernel.families == (f"{UNITS[arch]} {kind}",)
    assert faults(kernel, INTENTS) == []


@pytest.mark.parametrize("arch", [90, 100])
def test_an_fp8_kernel_that_is_fp16_is_found(compiling: Executor, arch: int) -> None:
    kernel = build(compiling, "fp8_right", arch)
    assert faults(kernel, INTENTS) == [f"runs mma.sync fp16 where {UNITS[arch]} e4m3 is meant"]


@pytest.mark.parametrize("arch", [90, 103])
def test_spilled_registers_are_found(compiling: Executor, arch: int) -> None:
    kernel = build(compiling, "spilling", arch)
    assert kernel.registers <= 32
    assert faults(kernel, INTENTS) == [f"spills {kernel.stack_bytes} bytes a thread"]
    assert faults(kernel, {"sum_kernel": Intent(hot=False)}) == []


def test_too_much_shared_memory_is_found(compiling: Executor) -> None:
    kernel = build(compiling, "too_much_shared", 90)
    assert kernel.shared_bytes > SHARED_LIMIT
    [fault] = faults(kernel, INTENTS)
    assert fault.startswith(f"needs {kernel.shared_bytes:,} bytes of shared memory")


def test_a_kernel_that_does_not_compile_is_found(compiling: Executor) -> None:
    [fault] = faults(build(compiling, "refused", 90), INTENTS)
    assert fault.startswith("does not compile: ")


def test_a_kernel_without_an_intent_is_found() -> None:
    [fault] = faults(Compiled(launch=launch("new_kernel")), INTENTS)
    assert "intents.py" in fault


def launch(name: str, *, n: int = 64, arch: int = 90, seen: str = "") -> Launch:
    return Launch(
        kernel=f"somewhere:{name}",
        arch=arch,
        formats=(("w_ptr", "bf16"),),
        constants=(("N", n),),
        warps=4,
        specialization=seen,
    )


def test_a_row_shows_the_worst_of_its_specialisations() -> None:
    few = Compiled(launch=launch("sum_kernel", seen="1 row"), registers=40, shared_bytes=10)
    many = Compiled(launch=launch("sum_kernel", seen="rows"), registers=30, shared_bytes=20, stack_bytes=8)
    other = Compiled(launch=launch("sum_kernel", n=32))
    found = rows([(few, ("a",)), (other, ("b",)), (many, ("a", "c"))], INTENTS)

    assert [dict(row.constants)["N"] for row in found] == [64, 32]
    assert (found[0].registers, found[0].shared_bytes, found[0].stack_bytes) == (40, 20, 8)
    assert found[0].models == ("a", "c")
    assert found[0].faults == ("spills 8 bytes a thread",)
    assert found[1].faults == ()


@pytest.mark.parametrize("name", ["bf16", "fp8_left", "spilling", "refused"])
def test_a_twin_is_assembled_to_what_it_compiles_to(compiling: Executor, name: str) -> None:
    run = getattr(importlib.import_module("made_up_kernels"), name)
    [first], [second] = (compiling.submit(record_launches, run, arch).result() for arch in (100, 103))
    assert first.on(103) == second
    assert compiling.submit(makes_same_ptx, first, 103).result() == (name != "refused")

    [_, assembled] = compiling.submit(compiled, first, (103,)).result()
    assert [assembled] == compiling.submit(compiled, second).result()


def test_gpus_with_other_matrix_instructions_do_not_make_the_same_ptx(compiling: Executor) -> None:
    run = importlib.import_module("made_up_kernels").bf16
    [first] = compiling.submit(record_launches, run, 90).result()
    assert not compiling.submit(makes_same_ptx, first, 100).result()


@pytest.mark.parametrize(
    ("ptx", "ttgir", "found"),
    [
        ("wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {", "", "wgmma e4m3"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {", "", "mma.sync fp16"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {", "", "mma.sync tf32"),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e5m2.e5m2.f32 {", "", "mma.sync e5m2"),
        ("fma.rn.f32 %f1, %f2;", "%a = tt.dot %b, %c : tensor<16x16xf32>", "ffma"),
        ("fma.rn.f32 %f1, %f2;", "", ""),
    ],
)
def test_families_are_read_from_the_instructions(ptx: str, ttgir: str, found: str) -> None:
    assert " + ".join(families(ptx, ttgir)) == found
