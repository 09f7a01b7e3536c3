"""`specmon kernels`: what the GPU compilers make of the Triton kernels, checked without a GPU."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands.output import say, write_json, write_line

if TYPE_CHECKING:
    from specmon.kernels.offline.compiled import Compiled
    from specmon.kernels.offline.report import Row

ARCHITECTURES = (90, 100, 103)

app = typer.Typer(help="Check the GPU kernels.", no_args_is_help=True, rich_markup_mode=None)


@app.command("check")
def check(
    arch: Annotated[
        str, typer.Option("--arch", metavar="LIST", help="Compute capabilities to compile for.")
    ] = ",".join(map(str, ARCHITECTURES)),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compile every kernel in use and hold it to what it is meant to be; needs no GPU.

    Wrong are: another matrix instruction or number format than meant, spilled registers, too much shared memory. Exit code
    1 names each such kernel on stderr.
    """
    from specmon.kernels.offline.report import rows

    architectures = _architectures(arch)
    _require_compilers()
    found = rows(_compile_all(architectures))
    broken = [(row, fault) for row in found for fault in row.faults]
    if as_json:
        write_json({"ok": not broken, "rows": [_plain(row) for row in found]})
    else:
        for line in table(found):
            write_line(line)
    for row, fault in broken:
        say(f"{row.kernel} [{_constants(row)}] on sm_{row.arch} {fault}.")
    if broken:
        raise typer.Exit(1)
    if not as_json:
        write_line(f"{len(found)} kernels by shape and GPU are what they are meant to be.")


def _architectures(text: str) -> tuple[int, ...]:
    known = ", ".join(map(str, ARCHITECTURES))
    try:
        wanted = tuple(dict.fromkeys(int(word.strip().removeprefix("sm_")) for word in text.split(",")))
    except ValueError as bad:
        raise UsageError(
            f"--arch {text!r} is no list of compute capabilities.", f"Known are {known}."
        ) from bad
    if unknown := [str(a) for a in wanted if a not in ARCHITECTURES]:
        raise UsageError(
            f"There are no kernels for compute capability {', '.join(unknown)}.", f"Known are {known}."
        )
    return wanted


def _require_compilers() -> None:
    from importlib.util import find_spec

    for package in ("torch", "triton"):
        if find_spec(package) is None:
            raise SpecmonError(
                f"Kernels cannot be compiled, since {package} is not installed.",
                "pip install 'specmon[engine]'",
            )


def _compile_all(architectures: tuple[int, ...]) -> list[tuple[Compiled, tuple[str, ...]]]:
    """Every specialisation of every kernel in use, compiled once, with the models that launch it."""
    from specmon.core.models.launches import model_launches
    from specmon.core.models.random_weights import SHAPES
    from specmon.kernels.offline.compiled import compiled
    from specmon.kernels.offline.launches import Launch
    from specmon.kernels.offline.workers import compilers

    wanted = [(shape, arch) for arch in architectures for shape in SHAPES]
    users: dict[Launch, list[str]] = {}
    with compilers() as pool:
        for (shape, _), launches in zip(
            wanted, pool.map(model_launches, *zip(*wanted, strict=True)), strict=True
        ):
            for launch in launches:
                users.setdefault(launch, []).append(shape)
        done = pool.map(compiled, users, chunksize=4)
        return [(kernel, tuple(models)) for kernel, models in zip(done, users.values(), strict=True)]


def table(found: list[Row]) -> list[str]:
    """Rows for people, grouped by kernel and shape."""
    lines = []
    for kernel, shapes in groupby(found, key=lambda row: row.kernel):
        lines.append(kernel)
        for constants, group in groupby(shapes, key=_constants):
            alike = list(group)
            lines.append(f"  {constants}  ({', '.join(alike[0].models)})")
            lines += [f"    {_figures(row)}" for row in alike]
    return lines


def _figures(row: Row) -> str:
    return (
        f"sm_{row.arch:<4} {' + '.join(row.families) or 'no products':<13} {row.registers:>3} registers"
        f" {row.stack_bytes:>4} B spilled {row.shared_bytes / 1024:>6.1f} KiB shared"
        f"{'  WRONG' if row.faults else ''}"
    )


def _constants(row: Row) -> str:
    """N=4608 K=3584 … as the kernel was launched; what is False is left out."""
    words = [
        name if value is True else f"{name}={value}" for name, value in row.constants if value is not False
    ]
    return " ".join([*words, f"warps={row.warps}"])


def _plain(row: Row) -> dict[str, object]:
    return asdict(row) | {"formats": dict(row.formats), "constants": dict(row.constants)}
