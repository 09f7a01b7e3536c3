"""Opening the monitor: the options that only it has, and the exit code it leaves with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from specmon.core import paths
from specmon.core.errors import UsageError
from specmon.tui.commands.config import read_config
from specmon.tui.commands.config_keys import check_keys, config_notes
from specmon.tui.commands.options import in_browser
from specmon.tui.commands.output import say, write_line
from specmon.tui.commands.serve import NO_PASSWORD

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.tui.app import SpecmonApp

DEFAULT_THEME = "specmon-dark"
REFRESH_HZ, SSH_REFRESH_HZ, MAX_REFRESH_HZ = 16.0, 5.0, 60
THEMES = "themes"  #: in the config folder


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the monitor looks, its keys by action, and how often it is drawn.

    `once` gives the columns and rows of the one frame that is printed instead.
    """

    theme: str = DEFAULT_THEME
    ascii: bool = False
    mouse: bool = True
    refresh_hz: float = REFRESH_HZ
    keys: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    once: tuple[int, int] | None = None

    def options(self) -> dict[str, Any]:
        """The same as arguments of `SpecmonApp`."""
        return {
            "theme": self.theme,
            "themes": paths.config_dir() / THEMES,
            "ascii": self.ascii,
            "mouse": self.mouse,
            "refresh_hz": self.refresh_hz,
            "keys": self.keys,
            "notes": self.notes,
            "once": self.once is not None,
            "state": paths.state_dir(),
        }


def look(theme: str | None, ascii: bool, no_mouse: bool, once: tuple[int, int] | None = None) -> Look:
    """The checked options, and the rest of the user's config file.

    Raises: UsageError for a theme that cannot be used, or keys that no action or two actions have.
    """
    from specmon.themes import ThemeError, load_theme

    config = read_config()
    chosen = theme or DEFAULT_THEME
    try:
        load_theme(chosen, paths.config_dir() / THEMES)
    except ThemeError as error:
        raise UsageError(str(error)) from error
    hz = config.looks.get("refresh_hz", SSH_REFRESH_HZ if "SSH_CONNECTION" in os.environ else REFRESH_HZ)
    if not 0 < hz <= MAX_REFRESH_HZ:
        raise UsageError(
            f"The config {config.path} gives refresh_hz {hz}, but it takes 1 to {MAX_REFRESH_HZ}."
        )
    keys = check_keys(config)
    if once is not None:
        for text in keys.notes:  # a picture has no place for them
            say(text)
    return Look(
        theme=chosen,
        ascii=ascii or not _can_draw_signs(sys.stderr if once is None else sys.stdout),
        mouse=not no_mouse,
        refresh_hz=hz,
        keys=keys.usable,
        notes=() if once is not None else (*keys.notes, *[NO_PASSWORD] * in_browser()),
        once=once,
    )


def say_config_notes() -> None:
    """Tell on stderr what is wrong with the config file, where there is no monitor that would show it."""
    for text in config_notes():
        say(text)


def _can_draw_signs(stream: TextIO) -> bool:
    """Whether what is drawn on `stream` can be drawn with Unicode signs; a browser always gets UTF-8."""
    from specmon.tui.widgets.glyphs import can_carry_signs

    return in_browser() or can_carry_signs(stream.encoding)


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
            config=config,
            initial_request=request if request.messages else None,
            template=request,
            race_lanes=tuple(race_lanes),
            record=str(record.absolute()) if record else None,
            force=force,
            **look.options(),
        ),
        look,
    )


def open_replay(look: Look, recordings: Sequence[Path], *, follow: bool = False) -> None:
    """Show a recording, or several side by side, until the user leaves."""
    from specmon.tui.app import SpecmonApp
    from specmon.tui.feeds.replay import ReplayFeed
    from specmon.tui.feeds.side_by_side import SideBySideFeed

    feed = SideBySideFeed(recordings) if len(recordings) > 1 else ReplayFeed(recordings[0], follow=follow)
    _show(SpecmonApp(feed, **look.options()), look)


def _show(app: SpecmonApp, look: Look) -> None:
    """Run the app, or print its last frame; raises typer.Exit with its code where that is not 0."""
    from specmon.tui.app import print_app, run_app

    code = print_app(app, look.once) if look.once else run_app(app)
    if app.frame:
        write_line(app.frame)
    if code:
        raise typer.Exit(code)
