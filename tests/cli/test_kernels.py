"""`specmon kernels check` from the outside: its table, its exit codes, and what it says where it cannot run."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from specmon.kernels.offline.compiled import Compiled
from specmon.kernels.offline.launches import Launch
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
