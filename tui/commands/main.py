"""The `specmon` command: sub-commands, and how errors become one sentence and an exit code.

Exit codes: 0 ok, 1 runtime failure, 2 usage, 130 interrupt, 143 SIGTERM, 129 SIGHUP. Every sub-command imports what it
needs when it runs, so that `specmon --help` stays instant.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from specmon import __version__
from specmon.core.errors import SpecmonError
from specmon.tui.commands import (
    bench,
    check,
    doctor,
    kernels,
    models,
    race,
    redact,
    replay,
    run,
    serve,
    train,
)
from specmon.tui.commands.config import read_config
from specmon.tui.commands.output import StdoutError, note, on_stdout, say, write_line
from specmon.tui.ending import Ending, terminable

_HELP = ("-h", "--help", "--version")
EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPT = 1, 2, 130


class _RunByDefault(TyperGroup):
    """A group in which `specmon -p x` means `specmon run -p x`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name for param in self.get_params(ctx) for name in param.opts}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="specmon",
    cls=_RunByDefault,
    help="Decode with AR, SD or SSD and see where each round's time goes. Without a command: run.",
    epilog="Every command takes --debug, which shows the traceback behind an error.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        write_line(f"specmon {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command("run")(run.run)
app.command("race")(race.race)
app.command("replay")(replay.replay)
app.command("redact")(redact.redact)
app.add_typer(models.app, name="models")
app.add_typer(bench.app, name="bench")
app.add_typer(check.app, name="check")
app.add_typer(kernels.app, name="kernels")
app.add_typer(train.app, name="train")
app.command("doctor")(doctor.doctor)
app.command("serve", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(serve.serve)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    ending = Ending()
    try:
        with terminable(ending):
            code = app(
                args, prog_name="specmon", standalone_mode=False, obj=debug, default_map=_defaults(args)
            )
            with on_stdout():
                sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        code = _explain(error)
    if argv is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c once more must not change how this ends
    return ending.exit_code or (code if isinstance(code, int) else 0)


def _defaults(args: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Option defaults from the user's config file, for the sub-commands that read it. Raises: UsageError."""
    if not args or args[0] in ("run", "race", "replay") or (args[0].startswith("-") and args[0] not in _HELP):
        return read_config().defaults()
    return {}


def _explain(error: BaseException) -> int:
    """Say what went wrong in one sentence on stderr; returns the exit code."""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return EXIT_INTERRUPT
    if isinstance(error, BrokenPipeError | StdoutError):  # what is still buffered has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return EXIT_FAILURE
    if isinstance(error, SpecmonError):
        say(str(error))
        return error.exit_code
    if (
        type(error).__name__ == "NoArgsIsHelpError"
    ):  # its message is the help of a group called without a command
        note(str(error))
        return EXIT_USAGE
    if callable(
        format_message := getattr(error, "format_message", None)
    ):  # what typer raises for a wrong call
        say(f"{format_message().rstrip('.')}. Try: specmon --help")
        return EXIT_USAGE
    from specmon.core.engine.failures import LESS_MEMORY, is_out_of_memory, sentence

    if is_out_of_memory(error):
        say(f"{sentence(error)} {LESS_MEMORY}")
        return EXIT_FAILURE
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    say(f"{reason} (an error in specmon; --debug shows where).")
    return EXIT_FAILURE
