"""Read a theme: a TOML file that gives each semantic role one colour.

```toml
name = "specmon-dark"
dark = true
[colors]
accepted = "#7fcf8f"      # or one of the 16 terminal colours by name, or "default"
```

A role says what a colour means, never where it is drawn, so a theme stays valid when the screens change.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

#: Roles that colour text or glyphs a user has to read.
TEXT_ROLES = (
    "text", "muted", "title", "accent", "accepted", "rejected", "bonus", "hit", "miss", "draft",
    "branch_draft", "verify", "accept", "handoff", "wait", "overlap", "wasted", "device0", "device1",
    "sol", "floor", "warning", "error",
)  # fmt: skip
#: Roles that colour areas, frames and the rest of a bar.
AREA_ROLES = ("background", "surface", "border", "idle", "selected")
ROLES = (*TEXT_ROLES, *AREA_ROLES)

ANSI_COLORS = (
    "default", "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "bright_black",
    "bright_red", "bright_green", "bright_yellow", "bright_blue", "bright_magenta", "bright_cyan",
    "bright_white",
)  # fmt: skip

MIN_CONTRAST = 4.5  #: of WCAG 2, for text of normal size
_LINES = ("border", "idle")  # areas that are drawn as lines and have to be seen on the background

_HEX = re.compile(r"#[0-9a-fA-F]{6}")


class ThemeError(ValueError):
    """A theme that cannot be used; the message says which file and why."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """`colors` maps every role to "#rrggbb" or to a name in ANSI_COLORS."""

    name: str
    dark: bool
    colors: Mapping[str, str]

    @property
    def ansi(self) -> bool:
        """True if it uses the terminal's own 16 colours, whose look the terminal decides."""
        return any(not color.startswith("#") for color in self.colors.values())


def theme_names(folder: Path | None = None) -> list[str]:
    """Names of the themes that ship with specmon, sorted, then of the files in `folder` by their stems.

    A file there with a shipped theme's name is left out: it could not be chosen.
    """
    shipped = sorted(
        entry.name.removesuffix(".toml")
        for entry in files(__package__).iterdir()
        if entry.name.endswith(".toml")
    )
    own = sorted(path.stem for path in folder.glob("*.toml")) if folder is not None else []
    return shipped + [name for name in own if name not in shipped]


def load_theme(name_or_path: str | Path, folder: Path | None = None) -> Theme:
    """Load a theme by name, one that ships or one in `folder`, or any theme file by its path (ending in .toml).

    Raises: ThemeError if it does not exist, is not TOML, lacks a role, has an unknown one or a bad colour, or
    a role that cannot be read on a ground it stands on.
    """
    wanted = str(name_or_path)
    if wanted in theme_names():
        return parse_theme(files(__package__).joinpath(f"{wanted}.toml").read_text("utf-8"), wanted)
    path = Path(wanted)
    if folder is not None and wanted in theme_names(folder):
        path = folder / f"{wanted}.toml"
    elif path.suffix != ".toml":
        raise ThemeError(
            f"There is no theme {wanted!r}; choose {', '.join(theme_names(folder))} or give a .toml file."
        )
    try:
        return parse_theme(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ThemeError(f"The theme {path} cannot be read: {error}.") from error


def parse_theme(text: str, origin: str) -> Theme:
    """Turn a theme file's text into a Theme; `origin` names it in errors.

    Raises: ThemeError as `load_theme`.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ThemeError(f"The theme {origin} is not valid TOML: {error}.") from error
    name, dark, colors = table.get("name"), table.get("dark"), table.get("colors")
    if not isinstance(name, str) or not isinstance(dark, bool) or not isinstance(colors, dict):
        raise ThemeError(
            f"The theme {origin} needs a text `name`, a true/false `dark` and a table `[colors]`."
        )
    if missing := [role for role in ROLES if role not in colors]:
        raise ThemeError(f"The theme {origin} lacks the roles {', '.join(missing)}.")
    if unknown := [role for role in colors if role not in ROLES]:
        raise ThemeError(f"The theme {origin} has the unknown roles {', '.join(unknown)}.")
    for role, color in colors.items():
        if not isinstance(color, str) or not (_HEX.fullmatch(color) or color in ANSI_COLORS):
            raise ThemeError(
                f"The theme {origin} gives {role} the colour {color!r}; "
                f"use '#rrggbb' or one of {', '.join(ANSI_COLORS)}."
            )
    if low := low_contrasts(colors):
        more = f" (and {len(low) - 3} more)" if len(low) > 3 else ""
        raise ThemeError(
            f"The theme {origin} cannot be read: {', '.join(low[:3])}{more}; "
            f"every role needs {MIN_CONTRAST}:1 on its background."
        )
    return Theme(name=name, dark=dark, colors=dict(colors))


def low_contrasts(colors: Mapping[str, str]) -> list[str]:
    """The roles that are hard to read on a ground they stand on, each with its ratio, e.g. "miss on surface is 1.2:1".

    Text stands on the background, on surfaces and on what is selected; lines stand on the background. Colours
    of the terminal's own are left out: only the terminal knows how they look.
    """
    pairs = [(role, ground) for role in TEXT_ROLES for ground in ("background", "surface", "selected")]
    pairs += [(line, "background") for line in _LINES]
    return [
        f"{role} on {ground} is {math.floor(ratio * 10) / 10}:1"
        for role, ground in pairs
        if colors[role].startswith("#") and colors[ground].startswith("#")
        if (ratio := contrast(colors[role], colors[ground])) < MIN_CONTRAST
    ]


def contrast(a: str, b: str) -> float:
    """WCAG 2 contrast ratio of two "#rrggbb" colours, 1 to 21."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    """WCAG 2 relative luminance, 0 to 1."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
