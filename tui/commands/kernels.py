"""`specmon kernels`: the Triton kernels checked without a GPU, and their schedules tuned on one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands.bench_progress import BenchProgress
from specmon.tui.commands.output import say, write_json, write_line

if TYPE_CHECKING:
    from specmon.kernels.offline.compiled import Compiled
    from specmon.kernels.offline.launches import Launch
    from specmon.kernels.offline.report import Row
    from specmon.kernels.stream.shapes import Matmul
    from specmon.kernels.tune.search import Found

    Users = dict[Launch, tuple[str, ...]]  # launches, each with the models that make it

ARCHITECTURES = (90, 100, 103)

app = typer.Typer(help="Check and tune the GPU kernels.", no_args_is_help=True, rich_markup_mode=None)


@app.command("check", short_help="Compile every kernel and check it; needs no GPU.")
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


def _require_compilers(what: str = "Kernels cannot be compiled") -> None:
    from importlib.util import find_spec

    for package in ("torch", "triton"):
        if find_spec(package) is None:
            raise SpecmonError(
                f"{what}, since {package} is not installed.",
                "pip install 'specmon[engine]'",
            )


def _compile_all(architectures: tuple[int, ...]) -> list[tuple[Compiled, tuple[str, ...]]]:
    """Every specialisation of every kernel in use, compiled once, with the models that launch it."""
    from specmon.kernels.offline.compiled import compiled
    from specmon.kernels.offline.twins import twins_among

    twins = twins_among(architectures)
    with _progress() as progress, _compilers(progress) as pool:
        users = _recorded([arch for arch in architectures if arch not in twins], pool, progress)
        for arch, first in twins.items():
            users |= _unshared(users, first, arch, pool, progress)
        assembled = [
            tuple(a for a, first in twins.items() if first == launch.arch and launch.on(a) not in users)
            for launch in users
        ]
        progress.begin("kernels", len(users), "compiled")
        found = []
        for kernels, models in zip(
            pool.map(compiled, users, assembled, chunksize=4), users.values(), strict=True
        ):
            found += [(kernel, models) for kernel in kernels]
            progress.done()
        return found


def _recorded(architectures: list[int], pool: Executor, progress: BenchProgress) -> Users:
    """What every model launches on each of `architectures`."""
    from specmon.core.models.launches import model_launches
    from specmon.core.models.random_weights import SHAPES

    wanted = [(shape, arch) for arch in architectures for shape in SHAPES]
    users: Users = {}
    progress.begin("kernel launches", len(wanted), "models recorded")
    for (shape, _), launches in zip(
        wanted, pool.map(model_launches, *zip(*wanted, strict=True)), strict=True
    ):
        users |= {launch: (*users.get(launch, ()), shape) for launch in launches}
        progress.done()
    return users


def _unshared(users: Users, first: int, arch: int, pool: Executor, progress: BenchProgress) -> Users:
    """On `arch`, the launches of kinds that have another PTX there than on `first`."""
    from specmon.kernels.offline.twins import kind, makes_same_ptx, one_of_each

    tried = one_of_each(users, first)
    different = set()
    progress.begin(f"kernels for sm_{first} and sm_{arch}", len(tried), "compared")
    for launch, same in zip(tried, pool.map(makes_same_ptx, tried, repeat(arch)), strict=True):
        if not same:
            different.add(kind(launch))
        progress.done()
    return {
        launch.on(arch): models
        for launch, models in users.items()
        if launch.arch == first and kind(launch) in different
    }


@contextmanager
def _progress() -> Iterator[BenchProgress]:
    progress = BenchProgress()
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def _compilers(progress: BenchProgress) -> Iterator[Executor]:
    """Processes that compile, with a folder of their own. LLVM and ptxas can take such a process with them."""
    from specmon.core.paths import cache_dir
    from specmon.core.scratch import scratch_folder
    from specmon.kernels.offline.workers import compilers

    folder = cache_dir() / "compiled-kernels"
    try:
        with (
            scratch_folder(folder, lambda: progress.say("waiting for another kernels check.")),
            compilers(folder) as pool,
        ):
            yield pool
    except BrokenExecutor as died:
        raise SpecmonError(
            "A compiling process died, so the kernels are not checked.",
            "If memory ran out, free some; else a compiler crashed: --arch 90, 100 and 103 one by one shows for which GPU.",
        ) from died
    except OSError as refused:
        raise SpecmonError(
            f"Kernels cannot be compiled in {folder}: {refused.strerror or refused}."
        ) from refused


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
    verdict = "  WRONG" if row.faults else "  may spill" if row.stack_bytes else ""
    return (
        f"sm_{row.arch:<4} {' + '.join(row.families) or 'no products':<13} {row.registers:>3} registers"
        f" {row.stack_bytes:>4} B spilled {row.shared_bytes / 1024:>6.1f} KiB shared"
        f"{verdict}"
    )


def _constants(row: Row) -> str:
    """N=4608 K=3584 … as the kernel was launched; what is False is left out."""
    words = [
        name if value is True else f"{name}={value}" for name, value in row.constants if value is not False
    ]
    return " ".join([*words, f"warps={row.warps}"])


def _plain(row: Row) -> dict[str, object]:
    return asdict(row) | {"formats": dict(row.formats), "constants": dict(row.constants)}


@app.command("tune", short_help="Search schedules for matmuls on a CUDA GPU.")
def tune(
    shape: Annotated[
        list[str] | None, typer.Option("--shape", metavar="NAME", help="A model's shape; all by default.")
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option("--op", metavar="NAME", help="qkv, o, gate_up, down or head; all by default."),
    ] = None,
    weights: Annotated[str, typer.Option("--weights", metavar="FORMAT", help="bf16 or fp8.")] = "bf16",
    write: Annotated[
        bool, typer.Option("--write", help="Put winners into kernels/stream/schedules.toml.")
    ] = False,
    new_version: Annotated[
        bool,
        typer.Option(
            "--new-version", help="Also take winners that change bits: a new version of the backend."
        ),
    ] = False,
    rounds: Annotated[int, typer.Option("--rounds", min=3, help="Timings of each finalist.")] = 20,
) -> None:
    """Search schedules for each matmul on the first CUDA GPU, timed by graph replay over distinct weights.

    A winner gives the same bits as the schedule in use, at 1, 5 and 16 rows; with --new-version it need not.
    """
    _require_compilers("Schedules cannot be tuned")
    import torch

    matmuls = _matmuls(shape, op, weights)
    if not torch.cuda.is_available():
        raise SpecmonError(
            "Schedules are tuned on a CUDA GPU, and there is none here.", "Run it where one is."
        )
    winners = _Winners(weights) if write else None
    n_changed = 0
    try:
        for matmul in matmuls:
            found = _tuned(matmul, new_version, rounds)
            n_changed += found.changed
            if winners is not None and found.changed:
                winners.write(matmul.key, found)
    except KeyboardInterrupt:
        if winners is not None and n_changed:
            say(winners.said())
        raise
    if not n_changed:
        write_line("Every schedule in use stays.")
    elif winners is not None:
        write_line(winners.said())
    else:
        write_line(f"{n_changed} would change; --write keeps them.")


def _matmuls(shapes: list[str] | None, ops: list[str] | None, weights: str) -> list[Matmul]:
    """What to tune, each shape of a matmul once. Raises: UsageError for a name that is unknown."""
    from specmon.core.models.matmuls import eagle3_matmuls, matmuls_of
    from specmon.core.models.random_weights import HEADS, SHAPES, head_config
    from specmon.kernels.stream.schedule import WEIGHTS

    for name in shapes or ():
        if name not in SHAPES:
            raise UsageError(f"There is no shape {name!r}.", f"Choose {', '.join(SHAPES)}.")
    if weights not in WEIGHTS:
        raise UsageError(f"There are no weights in {weights!r}.", f"Choose {', '.join(WEIGHTS)}.")
    named = shapes or list(SHAPES)
    every = [matmul for name in named for matmul in matmuls_of(SHAPES[name], weights)]
    for name in named:
        if name in HEADS:
            every += eagle3_matmuls(head_config(SHAPES[name]), HEADS[name], weights)
    known = dict.fromkeys(matmul.op for matmul in every)
    for name in ops or ():
        if name not in known:
            raise UsageError(f"There is no op {name!r}.", f"Choose {', '.join(known)}.")
    return list({matmul.key: matmul for matmul in every if not ops or matmul.op in ops}.values())


def _tuned(matmul: Matmul, new_version: bool, rounds: int) -> Found:
    """Search one matmul and say what came of it."""
    import torch

    from specmon.kernels.tune.ahead import compile_ahead
    from specmon.kernels.tune.bench import StreamBench
    from specmon.kernels.tune.search import search
    from specmon.kernels.tune.space import candidates

    tried = candidates(matmul, any_split=new_version)
    say(f"{matmul.key}: {len(tried)} schedules.")
    compile_ahead(matmul, tried, "cuda:0", lambda done: say(f"{matmul.key}: {done} compiled."))
    with torch.inference_mode():
        bench = StreamBench(matmul, torch.device("cuda:0"))
        found = search(matmul.schedule, tried, bench, new_bits=new_version, rounds=rounds)
    write_line(f"{matmul.key:<22} {_outcome(found)}")
    return found


def _outcome(found: Found) -> str:
    left_out = f"{found.tried} tried, {found.refused} do not run, {found.other_bits} change bits"
    now = f"{found.current}: {found.current_us:.1f} µs"
    if not found.changed:
        return f"{now} stays ({left_out})"
    bits = "same bits" if found.same_bits else "other bits"
    return f"{now} → {found.best}: {found.best_us:.1f} µs, {bits} ({left_out})"


class _Winners:
    """What a search puts into the file of schedules, each winner as soon as it is found."""

    def __init__(self, weights: str) -> None:
        self._weights = weights
        self._n_written, self._new_version = 0, 0

    def write(self, key: str, found: Found) -> None:
        """Put a matmul's best schedule there; the first that changes bits makes a new version. Raises: SpecmonError."""
        from specmon.kernels.stream.schedule import SCHEDULES, ScheduleTable

        table = ScheduleTable.read(SCHEDULES)
        raises = not found.same_bits and not self._new_version
        table = table.with_changes({key: found.best}, weights=self._weights, new_version=raises)
        try:
            table.write(SCHEDULES)
        except OSError as refused:
            raise SpecmonError(f"{SCHEDULES} cannot be written: {refused.strerror}.") from refused
        self._n_written += 1
        if raises:
            self._new_version = table.version

    def said(self) -> str:
        """One sentence on all of it."""
        from specmon.kernels.stream.schedule import SCHEDULES

        version = f"; the Triton backend is version {self._new_version} now" if self._new_version else ""
        return f"{self._n_written} schedules written to {SCHEDULES}{version}."
