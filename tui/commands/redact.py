"""`specmon redact`: a copy of a recording that may be shown to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specmon.tui.commands import options
from specmon.tui.commands.output import say


def redact(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The recording.")],
    copy: Annotated[Path, typer.Argument(metavar="OUT", help="The copy to write.")],
    force: options.Force = False,
) -> None:
    """Copy a recording without prompt, text, token ids, paths, host and user; counts and times stay."""
    from specmon.core.session.redact import redact as write_redacted

    done = write_redacted(source, copy, force=force)
    for warning in done.warnings:
        say(warning)
    say(f"{done.path}: {done.events:,} events, {done.dropped:,} left out because nothing of them may stay.")
