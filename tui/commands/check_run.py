"""What the checks share: where they run, how they end, and what is noted where they pass."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import bench_files
from specmon.tui.commands.output import say

if TYPE_CHECKING:
    from specmon.core.bench.provenance import Provenance
    from specmon.core.checks.reports import Report
    from specmon.core.checks.subject import Kind, Subject
    from specmon.core.decoders.settle import Settled
    from specmon.core.hardware import Machine
    from specmon.core.models.pool import LoadedModel

Device = Annotated[str, typer.Option(metavar="D", help="auto, or the target's device: cuda:0.")]


def check_one_device(device: str) -> None:
    """Raises: UsageError where more than one is named."""
    if "," in device:
        raise UsageError(f"--device is {device!r}, but this check is of one device.")


def this_machine() -> Machine:
    """What there is to run on."""
    from specmon.core.ceilings import cuda_uuids
    from specmon.core.hardware import survey

    return survey(cuda_uuids())


def subjects_of(settled: Sequence[Settled]) -> list[Subject]:
    """What each lane's check is of."""
    from specmon.core.checks.identify import subject_of
    from specmon.core.paths import cache_dir

    return [subject_of(lane, cache_dir()) for lane in settled]


def load_alone(lane: Settled) -> LoadedModel:
    """A lane's target on its device, in memory that is free again when it is let go."""
    from specmon.core.models.pool import ModelPool, unwatched

    config, device = lane.config, lane.devices.names[0]
    return ModelPool().target(config.target, lane.recipe, device, unwatched, config.backend)


def made_on(lane: Settled, devices: Sequence[str]) -> Provenance:
    """What to write beside a check on those `devices` of `lane`."""
    from specmon.core.bench.provenance import provenance

    named = zip(devices, lane.models, strict=False)
    hardware = "; ".join(f"{device}: {model}" for device, model in named)
    return provenance(hardware, ("torch", "triton", "transformers"))


def this_command() -> str:
    """As it was typed."""
    return shlex.join(["specmon", *sys.argv[1:]])


def give(report: Report, markdown: str, files: bench_files.Files | None, *, json: bool, n_done: int) -> None:
    """Write and print a report, of a run that was broken off too."""
    whole = n_done == report.n_planned
    if not whole:
        say(f"Broken off: the report holds {n_done} of {report.n_planned} lines.")
    bench_files.give_report(report, markdown, files, json=json, whole=whole)


def note(kind: Kind, outcomes: Sequence[tuple[Subject, bool]]) -> None:
    """Keep which subjects passed, and forget those that did not."""
    from specmon.core.bench.provenance import today
    from specmon.core.checks.records import Passed, Records

    records = Records.of_user()
    for subject, passed in outcomes:
        if passed:
            records.keep(Passed(kind=kind, subject=subject, date=today(), command=this_command()))
        else:
            records.drop(kind, subject)


def fail_on(report: Report) -> None:
    """Raises: SpecmonError with the first fault, if there is one."""
    if report.faults:
        raise SpecmonError(report.faults[0])
