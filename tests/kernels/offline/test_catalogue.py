"""What is checked is what runs: every kernel that our code launches is recorded from a model."""

from __future__ import annotations

import ast
from concurrent.futures import Executor
from pathlib import Path

import pytest

import specmon.kernels
from specmon.core.models.launches import model_launches
from specmon.core.models.random_weights import SHAPES
from specmon.kernels.offline.intents import INTENTS
from specmon.kernels.offline.launches import Launch
from specmon.kernels.offline.twins import TWINS

KERNELS = Path(specmon.kernels.__path__[0])


def entry_kernels() -> set[str]:
    """The `@triton.jit` functions in kernels/ that no other one calls: host code launches them, or they are dead."""
    kernels, called = set(), set()
    for path in KERNELS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                "triton.jit" in ast.unparse(d) for d in node.decorator_list
            ):
                kernels.add(node.name)
                inner = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
                called |= {ast.unparse(func).rpartition(".")[2] for func in inner}
    return kernels - called


@pytest.fixture(scope="module")
def recorded(compiling: Executor) -> dict[str, list[Launch]]:
    return dict(zip(SHAPES, compiling.map(model_launches, SHAPES, [90] * len(SHAPES)), strict=True))


def test_every_kernel_that_is_launched_is_checked(recorded: dict[str, list[Launch]]) -> None:
    checked = {launch.name for launches in recorded.values() for launch in launches}
    assert checked == entry_kernels()
    assert checked == set(INTENTS)


def test_launches_are_those_of_a_gpu_that_overlaps(recorded: dict[str, list[Launch]]) -> None:
    alone = {"pong_kernel"}  # follows nothing: the host waits before it asks for the time
    for launch in recorded["qwen2.5-7b"]:
        if launch.name in alone:
            continue
        assert ("PDL", True) in launch.constants
        assert '"launch_pdl": true' in launch.specialization


def test_a_launch_moved_to_its_twin_is_what_is_recorded_there(compiling: Executor) -> None:
    for arch, first in TWINS.items():
        here, there = compiling.map(model_launches, ["smollm2-135m"] * 2, [first, arch])
        assert [launch.on(arch) for launch in here] == there


def test_every_row_count_runs_the_same_binary(recorded: dict[str, list[Launch]]) -> None:
    bf16 = [launch for launch in recorded["qwen2.5-7b"] if ("w_ptr", "bf16") in launch.formats]
    assert len([launch for launch in bf16 if ("K", 18_944) in launch.constants]) == 1


@pytest.mark.parametrize("shape", ["qwen2.5-7b", "smollm2-135m"])
def test_what_a_draft_launches_is_what_rows_launch(recorded: dict[str, list[Launch]], shape: str) -> None:
    """No pointer of a pass within a draft is aligned otherwise, which would be another binary."""
    kinds = [(launch.name, launch.formats, launch.constants) for launch in recorded[shape]]
    assert len(kinds) == len(set(kinds))


def test_head_norms_and_logits_are_variants_of_their_own(recorded: dict[str, list[Launch]]) -> None:
    def variants(shape: str, name: str) -> set[object]:
        return {dict(launch.constants)[name] for launch in recorded[shape] if name in dict(launch.constants)}

    assert variants("qwen3-0.6b", "HAS_NORM") == {True}
    assert variants("qwen2.5-7b", "HAS_NORM") == {False}
    assert variants("qwen2.5-7b", "WRITE") == {True, False}
