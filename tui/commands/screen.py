"""Opening the monitor: the options that only it has, and the exit code it leaves with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specmon.core.errors import UsageError

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.tui.app import SpecmonApp

DEFAULT_THEME = "specmon-dark"


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the monitor looks and whether it takes the mouse."""

    theme: str = DEFAULT_THEME
    ascii: bool = False
    mouse: bool = True


def look(theme: str | None, ascii: bool, no_mouse: bool) -> Look:
    """The checked options. Raises: UsageError for a theme that cannot be used."""
    from specmon.themes import ThemeError, load_theme

    chosen = theme or DEFAULT_THEME
    try:
        load_theme(chosen)
    except ThemeError as error:
        raise UsageError(str(error)) from error
    return Look(theme=chosen, ascii=ascii, mouse=not no_mouse)


def open_monitor(
    look: Look,
    config: LaneConfig,
    request: Request,
    *,
    race_lanes: Sequence[LaneConfig] = (),
    record: Path | None = None,
    force: bool = False,
    debug: bool = False,
) -> None:
    """Show a live engine until the user leaves.

    A `request` with a message is decoded, or raced on `race_lanes`, at once; what is typed later takes its
    sampling and limits.
    """
    from specmon.core.engine.client import EngineClient
    from specmon.tui.app import SpecmonApp
    from specmon.tui.feeds.live import LiveFeed

    _show(
        SpecmonApp(
            LiveFeed(partial(EngineClient.start, debug=debug)),
            theme=look.theme,
            ascii=look.ascii,
            mouse=look.mouse,
            config=config,
            initial_request=request if request.messages else None,
            template=request,
            race_lanes=tuple(race_lanes),
            record=str(record.absolute()) if record else None,
            force=force,
        )
    )


def open_replay(look: Look, path: Path) -> None:
    """Show a recording until the user leaves."""
    from specmon.tui.app import SpecmonApp
    from specmon.tui.feeds.replay import ReplayFeed

    _show(SpecmonApp(ReplayFeed(path), theme=look.theme, ascii=look.ascii, mouse=look.mouse))


def _show(app: SpecmonApp) -> None:
    """Run the app; raises typer.Exit with its code where that is not 0."""
    from specmon.tui.app import run_app

    if code := run_app(app):
        raise typer.Exit(code)
