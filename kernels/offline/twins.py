"""GPU generations that share their PTX: for the second of two only the assembler runs, which saves most of a compilation.

Triton makes the same PTX for sm_103 as for sm_100, but for the target it names. That it does is tried on one launch of each
kind, compiled in full for both; where it does not, all launches of that kind are compiled in full.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from specmon.kernels.offline.launches import WARP_SIZE, Launch, compile_launch

TWINS = {103: 100}  # the one whose PTX it shares

_TARGET = re.compile(r"^\.target sm_\d+", re.MULTILINE)


def twins_among(architectures: Iterable[int]) -> dict[int, int]:
    """Those of `architectures` whose PTX another one of them makes, with that one."""
    every = tuple(architectures)
    return {arch: TWINS[arch] for arch in every if TWINS.get(arch) in every}


def kind(launch: Launch) -> tuple[object, ...]:
    """What decides the instructions that Triton takes: the kernel and the formats of its numbers."""
    return launch.name, launch.formats


def one_of_each(launches: Iterable[Launch], arch: int) -> list[Launch]:
    """A launch on `arch` of each `kind`."""
    return list({kind(launch): launch for launch in launches if launch.arch == arch}.values())


def makes_same_ptx(launch: Launch, arch: int) -> bool:
    """Whether Triton makes the same PTX for `arch`; False where it makes none."""
    try:
        ptx: str = compile_launch(launch).asm["ptx"]
        other: str = compile_launch(launch.on(arch)).asm["ptx"]
    except Exception:  # Triton, LLVM and ptxas each raise their own kinds; compiled in full, each is reported
        return False
    return _for_target(ptx, arch) == other


def assemble(ptx: str, launch: Launch) -> bytes:
    """The binary of PTX for `launch`'s GPU, as Triton calls ptxas. Raises: what Triton raises."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    backend: Any = CUDABackend(GPUTarget("cuda", launch.arch, WARP_SIZE))
    options = backend.parse_options(json.loads(launch.specialization)["options"])
    cubin: bytes = backend.make_cubin(_for_target(ptx, launch.arch), {}, options, launch.arch)
    return cubin


def _for_target(ptx: str, arch: int) -> str:
    return _TARGET.sub(f".target sm_{arch}", ptx)
