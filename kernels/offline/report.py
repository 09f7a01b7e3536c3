"""What is wrong with compiled kernels, and one row a kernel and shape for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specmon.kernels.offline.compiled import Compiled
from specmon.kernels.offline.intents import INTENTS, Intent
from specmon.kernels.offline.launches import Constant

SHARED_LIMIT = 227 * 1024  # a block's, sm_90 to sm_103; source: CUDA programming guide, compute capabilities
TENSOR_COLUMNS_LIMIT = 512  # an SM's tensor memory, sm_100 and newer


def faults(kernel: Compiled, intents: Mapping[str, Intent] = INTENTS) -> list[str]:
    """One line for each thing that is wrong with `kernel`, without its name."""
    if kernel.error is not None:
        return [f"does not compile: {kernel.error}"]
    intent = intents.get(kernel.launch.name)
    if intent is None:
        return ["says nowhere what it is meant to be: add it to kernels/offline/intents.py"]
    found = []
    meant = intent.families(kernel.launch)
    if kernel.families != meant:
        found.append(f"runs {_names(kernel.families)} where {_names(meant)} is meant")
    if intent.hot and kernel.stack_bytes:
        found.append(f"spills {kernel.stack_bytes} bytes a thread")
    if kernel.shared_bytes > SHARED_LIMIT:
        found.append(
            f"needs {kernel.shared_bytes:,} bytes of shared memory, a block has {SHARED_LIMIT:,} at most"
        )
    if kernel.tensor_columns > TENSOR_COLUMNS_LIMIT:
        found.append(
            f"needs {kernel.tensor_columns} columns of tensor memory, there are {TENSOR_COLUMNS_LIMIT}"
        )
    return found


def _names(families: Iterable[str]) -> str:
    return " + ".join(families) or "no matrix instruction"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A kernel at a shape on one GPU generation: the worst of its specialisations by row count."""

    kernel: str
    models: tuple[str, ...]
    formats: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Constant], ...]
    warps: int
    arch: int
    families: tuple[str, ...]
    registers: int
    stack_bytes: int
    shared_bytes: int
    tensor_columns: int
    faults: tuple[str, ...]


def rows(
    kernels: Iterable[tuple[Compiled, tuple[str, ...]]], intents: Mapping[str, Intent] = INTENTS
) -> list[Row]:
    """Rows by kernel, shape and GPU generation, in this order. `kernels`: each with the models that launch it."""
    groups: dict[tuple[object, ...], dict[int, list[tuple[Compiled, tuple[str, ...]]]]] = {}
    for kernel, models in kernels:
        launch = kernel.launch
        shape = (launch.name, launch.formats, launch.constants, launch.warps)
        groups.setdefault(shape, {}).setdefault(launch.arch, []).append((kernel, models))
    found = [_row(group, intents) for by_arch in groups.values() for group in by_arch.values()]
    return sorted(found, key=lambda row: row.kernel)


def _row(group: list[tuple[Compiled, tuple[str, ...]]], intents: Mapping[str, Intent]) -> Row:
    alike = [kernel for kernel, _ in group]
    launch = alike[0].launch
    return Row(
        kernel=launch.name,
        models=tuple(dict.fromkeys(model for _, models in group for model in models)),
        formats=launch.formats,
        constants=launch.constants,
        warps=launch.warps,
        arch=launch.arch,
        families=tuple(sorted({family for kernel in alike for family in kernel.families})),
        registers=max(kernel.registers for kernel in alike),
        stack_bytes=max(kernel.stack_bytes for kernel in alike),
        shared_bytes=max(kernel.shared_bytes for kernel in alike),
        tensor_columns=max(kernel.tensor_columns for kernel in alike),
        faults=tuple(dict.fromkeys(fault for kernel in alike for fault in faults(kernel, intents))),
    )
