"""Kernel launches as data: recorded instead of run, compiled in another process, for GPUs that need not be there.

Triton itself describes a launch (argument types, divisibility by 16, constants, options) to its cache hook just before it
would compile; that description is kept and the launch goes no further. So what is checked cannot drift from what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

WARP_SIZE = 32
Constant = int | float | bool | str | None


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One specialisation of a kernel for one compute capability (90, 100, 103).

    `kernel` is "module:name"; `formats` the element type of each array argument ("bf16"); `constants` what the kernel
    declares `tl.constexpr`; `specialization` Triton's own description of all of it.
    """

    kernel: str
    arch: int
    formats: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Constant], ...]
    warps: int
    specialization: str

    @property
    def name(self) -> str:
        return self.kernel.rpartition(":")[2]

    def on(self, arch: int) -> Launch:
        """The same launch on a GPU that Triton tells from this one by its number alone."""
        seen = self.specialization
        for number in ('"arch": {}', '"arch": "sm{}"'):
            seen = seen.replace(number.format(self.arch), number.format(arch))
        return replace(self, arch=arch, specialization=seen)


class _AbsentGpu:
    """What Triton asks of a driver before it compiles. A device's number is its compute capability."""

    def __init__(self, arch: int) -> None:
        self._arch = arch

    def get_current_device(self) -> int:
        return self._arch

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._arch, WARP_SIZE)


def record_launches(run: Callable[[], None], arch: int) -> list[Launch]:
    """What `run` launches, each specialisation once, in order; nothing is compiled or run.

    Tensors may lie on torch's meta device. This process's Triton knows no other GPU afterwards.
    """
    from triton import knobs
    from triton.runtime.driver import driver

    seen: dict[Launch, None] = {}

    def keep(*, fn: Any, compile: dict[str, Any], **_: Any) -> bool:
        seen.setdefault(_described(fn.jit_function, compile, arch))
        return True  # there is nothing to compile

    driver.set_active(_AbsentGpu(arch))
    before = knobs.runtime.jit_cache_hook
    knobs.runtime.jit_cache_hook = keep
    try:
        run()
    finally:
        knobs.runtime.jit_cache_hook = before
    return list(seen)


def _described(kernel: Any, compile: dict[str, Any], arch: int) -> Launch:
    values = {path[0]: value for path, value in compile["constants"].items()}
    types: dict[str, str] = compile["signature"]
    return Launch(
        kernel=f"{kernel.fn.__module__}:{kernel.fn.__qualname__}",
        arch=arch,
        formats=tuple((name, kind[1:]) for name, kind in types.items() if kind.startswith("*")),
        constants=tuple((p.name, values[p.num]) for p in kernel.params if p.is_constexpr),
        warps=compile["num_warps"],
        specialization=compile["specialization_data"],
    )


def compile_launch(launch: Launch) -> Any:
    """Triton's compiled kernel. Raises: whatever the compilers raise."""
    import importlib

    from triton.runtime.driver import driver

    driver.set_active(_AbsentGpu(launch.arch))
    module, _, name = launch.kernel.partition(":")
    kernel = getattr(importlib.import_module(module), name)
    found = kernel.preload(launch.specialization)
    kernel.device_caches.clear()  # what is kept there would be launched, not recorded, by this process's next recording
    return found
