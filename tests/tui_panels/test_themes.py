from __future__ import annotations

import math
import re
from importlib.resources import files
from pathlib import Path

import pytest

from specmon.themes import ROLES, TEXT_ROLES, Theme, ThemeError, contrast, load_theme, theme_names

FIXED = [name for name in theme_names() if not load_theme(name).ansi]


def written(tmp_path: Path, change: str, into: str) -> Path:
    """The dark theme's file with one change."""
    text = (files("specmon.themes") / "specmon-dark.toml").read_text("utf-8")
    changed = re.sub(change, into, text, count=1, flags=re.MULTILINE)
    assert changed != text
    path = tmp_path / "mine.toml"
    path.write_text(changed, "utf-8")
    return path


def test_six_themes_ship_and_two_are_light() -> None:
    assert theme_names() == [
        "ansi",
        "colour-blind",
        "high-contrast",
        "paper",
        "specmon-dark",
        "specmon-light",
    ]
    assert [name for name in theme_names() if not load_theme(name).dark] == ["paper", "specmon-light"]


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


@pytest.mark.parametrize("role", ["border", "idle"])
@pytest.mark.parametrize("name", FIXED)
def test_frames_and_empty_parts_are_readable_on_the_background(name: str, role: str) -> None:
    colors = load_theme(name).colors
    assert contrast(colors[role], colors["background"]) >= 4.5


#: Machado, Oliveira and Fernandes 2009: what is left of linear RGB without one kind of cone.
CONES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
OPPOSITES = [
    ("accepted", "rejected"),
    ("accepted", "bonus"),
    ("hit", "miss"),
    ("verify", "draft"),
    ("verify", "branch_draft"),
    ("draft", "branch_draft"),
    ("device0", "device1"),
    ("overlap", "wasted"),
    ("sol", "floor"),
]
TOLD_APART = 25  # distance in CIELAB; 2 or 3 is what an eye can see side by side


def seen(color: str, cones: str) -> tuple[float, float, float]:
    """CIELAB of "#rrggbb" as it is seen without some cones."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    rows = CONES[cones]
    left = [min(max(sum(a * b for a, b in zip(row, linear, strict=True)), 0.0), 1.0) for row in rows]
    to_xyz = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728))
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in (sum(a * b for a, b in zip(row, left, strict=True)) for row in to_xyz)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("cones", CONES)
@pytest.mark.parametrize("pair", OPPOSITES, ids="-".join)
def test_colour_blind_theme_keeps_opposites_apart(pair: tuple[str, str], cones: str) -> None:
    colors = load_theme("colour-blind").colors
    assert math.dist(seen(colors[pair[0]], cones), seen(colors[pair[1]], cones)) >= TOLD_APART


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("bar", ["device0", "device1"])
def test_a_line_across_a_bar_is_readable(name: str, bar: str) -> None:
    colors = load_theme(name).colors
    assert contrast(colors["background"], colors[bar]) >= 4.5


def test_themes_of_the_user_come_after_those_that_ship(tmp_path: Path) -> None:
    (tmp_path / "dusk.toml").write_bytes((files("specmon.themes") / "specmon-dark.toml").read_bytes())
    (tmp_path / "ansi.toml").write_text("not a theme")
    (tmp_path / "broken.toml").write_text("dark = 3")
    assert theme_names(tmp_path) == [*theme_names(), "broken", "dusk"]
    assert load_theme("dusk", tmp_path).colors == load_theme("specmon-dark").colors
    assert load_theme("ansi", tmp_path) == load_theme("ansi")
    with pytest.raises(ThemeError, match=r"broken\.toml needs a text `name`"):
        load_theme("broken", tmp_path)
    with pytest.raises(ThemeError, match="dusk"):
        load_theme("dawn", tmp_path)


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
        (r'^miss = ".*"', 'miss = "#000000"', "miss on background is 1."),
        (r'^border = ".*"', 'border = "#303030"', "border on background is 1."),
    ],
)
def test_bad_theme_is_refused_with_the_reason(tmp_path: Path, change: str, into: str, reason: str) -> None:
    with pytest.raises(ThemeError, match=re.escape(reason)):
        load_theme(written(tmp_path, change, into))


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(
        4.48, abs=0.01
    )  # the well-known grey just below 4.5


def test_theme_on_a_ground_of_its_own_colour_names_a_few_roles_and_counts_the_rest(tmp_path: Path) -> None:
    with pytest.raises(ThemeError, match=r"text on background is \d\.\d:1, .* \(and \d+ more\); .* 4\.5:1"):
        load_theme(written(tmp_path, r'^background = ".*"', 'background = "#ffffff"'))


def test_terminal_colours_have_no_contrast_to_judge(tmp_path: Path) -> None:
    assert load_theme(written(tmp_path, r'^miss = ".*"', 'miss = "black"')).colors["miss"] == "black"


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
