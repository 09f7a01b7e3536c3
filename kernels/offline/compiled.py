"""What came out of the compilers: matrix instructions, registers, spills, shared memory."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specmon.kernels.offline.families import families
from specmon.kernels.offline.launches import Launch, compile_launch
from specmon.kernels.offline.twins import assemble

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_RESERVED_SHARED = 1024  # CUDA's own, a block: reported beside ours and outside the limit


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A launch and what it needs. `stack_bytes`: a thread's spilled registers. `error`: why it does not compile."""

    launch: Launch
    families: tuple[str, ...] = ()
    registers: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    tensor_columns: int = 0
    error: str | None = None


def compiled(launch: Launch, twins: tuple[int, ...] = ()) -> list[Compiled]:
    """Compile `launch`, assemble its PTX for `twins` too (`twins`), and read what became of each.

    A compiler's refusal is part of the answer.
    """
    try:
        kernel = compile_launch(launch)
    except Exception as refused:  # Triton, LLVM and ptxas each raise their own kinds
        return [_refused(one, refused) for one in (launch, *map(launch.on, twins))]
    return [
        _read(launch, kernel, kernel.asm["cubin"]),
        *(_assembled(launch.on(arch), kernel) for arch in twins),
    ]


def _assembled(launch: Launch, kernel: Any) -> Compiled:
    try:
        cubin = assemble(kernel.asm["ptx"], launch)
    except Exception as refused:
        return _refused(launch, refused)
    return _read(launch, kernel, cubin)


def _refused(launch: Launch, refused: Exception) -> Compiled:
    lines = str(refused).strip().splitlines() or [""]
    return Compiled(launch=launch, error=f"{type(refused).__name__}: {lines[-1]}")


def _read(launch: Launch, kernel: Any, cubin: bytes) -> Compiled:
    registers, stack, static = _resources(cubin)
    return Compiled(
        launch=launch,
        families=families(kernel.asm["ptx"], kernel.asm["ttgir"]),
        registers=registers,
        stack_bytes=stack,
        shared_bytes=kernel.metadata.shared + static,
        tensor_columns=kernel.metadata.tmem_size or 0,
    )


def _resources(cubin: bytes) -> tuple[int, int, int]:
    """Registers and bytes of stack and local memory a thread, bytes of static shared memory a block."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run(
            [_cuobjdump(), "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    found = _USAGE.search(said.stdout)
    assert found is not None, said.stdout
    registers, stack, shared, local = map(int, found.groups())
    return registers, stack + local, max(0, shared - _RESERVED_SHARED)


def _cuobjdump() -> Path:
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
