"""`specmon serve`: the monitor in a browser on this machine, through textual-serve."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from specmon.core.errors import SpecmonError, UsageError
from specmon.tui.commands.output import say

HOST = "localhost"
NO_PASSWORD = (
    "There is no password: whoever can connect to this port of this machine uses specmon as you. "
    "It listens on localhost alone; from elsewhere, forward the port with ssh."
)


def serve(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on.")] = 8000,
) -> None:
    """Show the monitor in a browser on this machine; what follows is a specmon command, by default run."""
    if not 1 <= port <= 65535:
        raise UsageError(f"--port is {port}, but it must be 1 to 65535.")
    try:
        from textual_serve.server import Server
    except ImportError as error:
        raise SpecmonError(
            "Serving needs the package textual-serve, which is not installed.",
            "Install it with: pip install 'specmon[serve]'",
        ) from error
    say(f"http://{HOST}:{port} shows the monitor. {NO_PASSWORD}")
    command = [sys.executable, "-m", "specmon.tui.commands", *(ctx.args or ["run"])]
    Server(shlex.join(command), host=HOST, port=port, title="specmon").serve()
