from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from specmon.themes import ROLES, TEXT_ROLES, Theme, ThemeError, load_theme, theme_names

FIXED = [name for name in theme_names() if not load_theme(name).ansi]


def contrast(a: str, b: str) -> float:
    """WCAG 2 contrast ratio of two "#rrggbb" colours, 1 to 21."""

    def luminance(color: str) -> float:
        channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def written(tmp_path: Path, change: str, into: str) -> Path:
    """The dark theme's file with one change."""
    text = (files("specmon.themes") / "specmon-dark.toml").read_text("utf-8")
    changed = re.sub(change, into, text, count=1, flags=re.MULTILINE)
    assert changed != text
    path = tmp_path / "mine.toml"
    path.write_text(changed, "utf-8")
    return path


def test_themes_that_ship_are_the_four() -> None:
    assert theme_names() == ["ansi", "high-contrast", "specmon-dark", "specmon-light"]


@pytest.mark.parametrize("name", theme_names())
def test_theme_has_every_role_and_its_own_name(name: str) -> None:
    theme = load_theme(name)
    assert theme.name == name
    assert set(theme.colors) == set(ROLES)


@pytest.mark.parametrize("ground", ["background", "surface", "selected"])
@pytest.mark.parametrize("name", FIXED)
def test_text_roles_are_readable_on_every_ground(name: str, ground: str) -> None:
    colors = load_theme(name).colors
    low = {role: round(contrast(colors[role], colors[ground]), 2) for role in TEXT_ROLES}
    assert {role: value for role, value in low.items() if value < 4.5} == {}


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("bar", ["device0", "device1"])
def test_a_line_across_a_bar_is_readable(name: str, bar: str) -> None:
    colors = load_theme(name).colors
    assert contrast(colors["background"], colors[bar]) >= 4.5


def test_theme_loads_from_a_path(tmp_path: Path) -> None:
    theme = load_theme(written(tmp_path, r'^accent = ".*"', 'accent = "bright_blue"'))
    assert theme.colors["accent"] == "bright_blue"
    assert theme.ansi


@pytest.mark.parametrize(
    ("change", "into", "reason"),
    [
        (r"^verify = .*\n", "", "lacks the roles verify"),
        (r"^verify = ", "verfiy = '#000000'\nverify = ", "unknown roles verfiy"),
        (r'^verify = ".*"', 'verify = "blueish"', "gives verify the colour 'blueish'"),
        (r'^verify = ".*"', "verify = 3", "gives verify the colour 3"),
        (r'^verify = ".*"', 'verify = "#12345"', "gives verify the colour '#12345'"),
        (r"^dark = true", 'dark = "yes"', "needs a text `name`"),
        (r"^\[colors\]", "[colors", "not valid TOML"),
    ],
)
def test_bad_theme_is_refused_with_the_reason(tmp_path: Path, change: str, into: str, reason: str) -> None:
    with pytest.raises(ThemeError, match=re.escape(reason)):
        load_theme(written(tmp_path, change, into))


def test_unknown_theme_names_those_there_are() -> None:
    with pytest.raises(ThemeError, match="high-contrast"):
        load_theme("solarized")


def test_missing_and_binary_theme_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ThemeError, match="cannot be read"):
        load_theme(tmp_path / "none.toml")
    (tmp_path / "bin.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ThemeError, match="cannot be read"):
        load_theme(tmp_path / "bin.toml")


def test_theme_is_frozen() -> None:
    with pytest.raises(AttributeError):
        load_theme("ansi").name = "other"  # type: ignore[misc]
    assert isinstance(load_theme("ansi"), Theme)
