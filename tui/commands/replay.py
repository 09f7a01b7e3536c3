"""`specmon replay`: a recording on the monitor, as text or JSON, dumped line by line, or checked."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands import options
from specmon.tui.commands.output import TextStream, print_out, say, write_line
from specmon.tui.commands.recordings import find_recording, list_recordings, recover_all

if TYPE_CHECKING:
    from specmon.core.events import AnyEvent, Event

FOLLOW_POLL_S = 0.05


def replay(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…", help="A recording, or several side by side; without one, those at hand."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check every identity the events must hold.")
    ] = False,
    dump: Annotated[bool, typer.Option("--dump", help="Print the events, one JSON line each.")] = False,
    no_times: Annotated[
        bool, typer.Option("--no-times", help="With --dump: leave out all times, to compare two recordings.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show a growing file, or print a pipe (-), until it is closed.")
    ] = False,
    recover: Annotated[
        bool, typer.Option("--recover", help="Keep what crashed runs left behind as recordings of yours.")
    ] = False,
    plain: options.Plain = False,
    json: options.Json = False,
    theme: options.Theme = None,
    ascii: options.Ascii = False,
    no_mouse: options.NoMouse = False,
    once: options.Once = False,
    size: options.Size = "",
) -> None:
    """Play a recording on the monitor; needs no GPU and no engine.

    Several are shown, or summed up with --json, side by side; exit code 1 if outputs differ that must be equal.
    """
    asked = {"--check": check, "--dump": dump, "--json": json, "--once": once, "--follow": follow}
    check_alone([option for option, given in asked.items() if given], recover=recover, file=bool(files))
    if check + dump + json + once > 1:
        raise UsageError("--check, --dump, --json and --once exclude each other.")
    if no_times and not dump:
        raise UsageError("--no-times goes with --dump.")
    frame = options.frame_size(size, once=once)
    if not files:
        recover_all() if recover else list_recordings()
        return
    paths = [file if str(file) == "-" else find_recording(file) for file in files]
    path = paths[0]
    on_screen = once or (options.on_terminal() and not (plain or json or check or dump or str(path) == "-"))
    if len(paths) > 1 and (check or dump or follow or any(str(each) == "-" for each in paths)):
        raise UsageError(
            "--check, --dump, --follow and a pipe (-) take one recording, not several side by side."
        )
    if not on_screen:
        from specmon.tui.commands.screen import say_config_notes

        say_config_notes()
    if check:
        check_recording(path, follow)
    elif dump:
        dump_recording(path, follow, times=not no_times)
    elif on_screen:
        from specmon.tui.commands.screen import look, open_replay

        open_replay(look(theme, ascii, no_mouse, frame), paths, follow=follow and not once)
    elif len(paths) > 1:
        from specmon.tui.commands.side_by_side import compare_recordings

        compare_recordings(paths, json)
    else:
        print_recording(path, follow, json)


def check_alone(asked: Sequence[str], *, recover: bool, file: bool) -> None:
    """Refuse what a recording is asked for where there is none, and anything beside --recover. Raises: UsageError."""
    if recover and (asked or file):
        raise UsageError(f"--recover goes alone, but {asked[0] if asked else 'a FILE'} is given too.")
    if asked and not file:
        raise UsageError(f"{asked[0]} takes a FILE.", "Those at hand are listed by: specmon replay")


def events_of(path: Path, follow: bool, warn: Callable[[str], object] = say) -> Iterator[Event]:
    """All events of a recording; its warnings go to `warn` when it has been read."""
    if follow or str(path) == "-":
        yield from _followed(path, warn)
        return
    from specmon.core.session.reader import SessionReader

    with SessionReader.open(path) as reader:
        yield from reader.events()
        for warning in reader.warnings:
            warn(warning)


def _followed(path: Path, warn: Callable[[str], object]) -> Iterator[Event]:
    from specmon.core.session.follow import follow

    for event in follow(path, warn=warn):
        if event is None:
            time.sleep(FOLLOW_POLL_S)
        else:
            yield event


def print_recording(path: Path, follow: bool, json: bool) -> None:
    """The recorded text and its summary, or the JSON object that the live run printed."""
    from specmon.tui.commands.report import Report

    report = Report(None if json else TextStream(sys.stdout))
    warnings: list[str] = []
    for event in events_of(path, follow, warnings.append):
        report.feed(event)
    figures = report.finish(None if str(path) == "-" else str(path.absolute()))
    for warning in warnings:
        say(warning)
    if figures is None:
        raise SpecmonError(f"{path} holds no turn.")


def dump_recording(path: Path, follow: bool, *, times: bool) -> None:
    """Every event as one line of JSON in one field order."""
    from specmon.core.session.dump import dump_lines

    for line in dump_lines(events_of(path, follow), times=times):
        print_out(line)


def check_recording(path: Path, follow: bool) -> None:
    """Say which identities do not hold. Raises: SpecmonError if there are any."""
    from specmon.core.metrics.validate import Validator

    validator = Validator()
    for event in events_of(path, follow):
        validator.feed(cast("AnyEvent", event))
    report = validator.finish()
    for text in report.notes:
        say(text)
    for problem in report.problems:
        write_line(problem)
    if not report.ok:
        raise SpecmonError(f"{path} breaks {report.n_problems:,} of the identities that every stream holds.")
    write_line(f"{path}: {report.n_events:,} events, {report.n_rounds:,} rounds: all identities hold.")
