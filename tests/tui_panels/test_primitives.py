from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color

from specmon.core.events import BUSY_KINDS
from specmon.themes import ROLES, load_theme, theme_names
from specmon.tui.widgets.bars import bar, column, nice_step
from specmon.tui.widgets.cells import width
from specmon.tui.widgets.glyphs import ASCII, UNICODE, Glyphs
from specmon.tui.widgets.lines import (
    Line,
    Title,
    changed_cells,
    fit,
    in_panel,
    line_width,
    on_ground,
    plain,
    runs,
    spread,
)
from specmon.tui.widgets.numbers import clock, gigabytes, ms, percent, short, size, us
from specmon.tui.widgets.palette import Palette, textual_theme

SETS = pytest.mark.parametrize("signs", [UNICODE, ASCII], ids=["unicode", "ascii"])


@SETS
def test_signs_of_one_family_differ(signs: Glyphs) -> None:
    fates = [signs.hit, signs.miss, signs.accepted, signs.bonus, signs.first, signs.selected]
    verdicts = [signs.kept, signs.rejected, signs.unreached]
    for family in (
        fates,
        verdicts,
        [signs.used, signs.wasted],
        list(signs.spans.values()),
        list(signs.series),
    ):
        assert len(set(family)) == len(family)


@SETS
def test_every_span_kind_has_a_sign(signs: Glyphs) -> None:
    assert set(signs.spans) == BUSY_KINDS | {"handoff", "collective", "wait"}


def test_ascii_signs_are_ascii() -> None:
    values = [getattr(ASCII, field.name) for field in fields(ASCII) if field.name != "ascii"]
    assert all("".join(value.values() if isinstance(value, dict) else value).isascii() for value in values)


@SETS
def test_signs_are_one_cell_wide(signs: Glyphs) -> None:
    wide = {"ascii", "arrow", "ellipsis"} if signs.ascii else {"ascii"}
    for field in fields(signs):
        value = getattr(signs, field.name)
        for sign in value.values() if isinstance(value, dict) else value if field.name not in wide else ():
            assert width(sign) == 1


def test_bar_draws_in_eighths() -> None:
    assert bar(0.5, 4, UNICODE) == "██"
    assert bar(9 / 32, 4, UNICODE) == "█▏"
    assert bar(1.0, 4, UNICODE) == "████"
    assert bar(7.0, 4, UNICODE) == "████"
    assert bar(0.0, 4, UNICODE) == ""
    assert bar(1e-9, 4, UNICODE) == "▏"
    assert bar(0.5, 4, ASCII) == "##"


def test_column_draws_from_the_bottom() -> None:
    assert column(0.5, 2, UNICODE) == [" ", "█"]
    assert column(0.75, 2, UNICODE) == ["▄", "█"]
    assert column(0.0, 2, UNICODE) == [" ", " "]
    assert column(9.0, 2, UNICODE) == ["█", "█"]
    assert column(0.5, 0, UNICODE) == []


@given(st.floats(0, 2), st.integers(0, 40))
def test_bars_never_exceed_their_cells(fraction: float, cells: int) -> None:
    assert width(bar(fraction, cells, UNICODE)) <= cells
    assert len(column(fraction, cells, UNICODE)) == cells


@given(st.floats(1e-6, 1e12), st.integers(1, 30))
def test_nice_step_covers_the_span_without_waste(span: float, at_most: int) -> None:
    step = nice_step(span, at_most)
    assert step * at_most >= span
    assert step * at_most < span * 2.6


def test_nice_step_is_one_two_or_five() -> None:
    assert [nice_step(x, 10) for x in (9.0, 11.0, 21.0, 51.0)] == [1.0, 2.0, 5.0, 10.0]


def test_fit_cuts_with_an_ellipsis_and_fills() -> None:
    line: Line = [("abc", "text"), ("漢字", "muted")]
    assert plain(fit(line, 6)) == "abc漢…"
    assert plain(fit(line, 9)) == "abc漢字  "
    assert fit(line, 0) == []


@given(st.lists(st.text("ab漢 e\u0301", max_size=6), max_size=5), st.integers(0, 20))
def test_fit_is_exact(parts: list[str], cells: int) -> None:
    assert line_width(fit([(part, "text") for part in parts], cells)) == cells


def test_spread_drops_the_right_part_where_both_do_not_fit() -> None:
    assert plain(spread([("left", "text")], [("right", "text")], 11)) == "left  right"
    assert plain(spread([("left", "text")], [("right", "text")], 9)) == "left     "


@pytest.mark.parametrize(
    ("before", "after", "cells"),
    [
        ([("ab", "text"), ("12", "title")], [("ab", "text"), ("12", "title")], (0, 0)),
        (
            [("ab", "text"), ("12", "title"), ("c", "text")],
            [("ab", "text"), ("13", "title"), ("c", "text")],
            (2, 4),
        ),
        ([("ab", "text"), ("12", "title")], [("ab", "muted"), ("12", "title")], (0, 2)),
        ([("ab", "text"), ("c", "title")], [("a", "text"), ("bc", "title")], (0, 3)),
        ([("漢", "text"), ("1", "title")], [("漢", "text"), ("2", "title")], (2, 3)),
        ([("a", "text"), ("a", "text")], [("a", "text"), ("a", "text"), ("", "text")], (2, 2)),
        ([], [("ab", "text")], (0, 2)),
    ],
)
def test_changed_cells_are_those_between_equal_ends(
    before: Line, after: Line, cells: tuple[int, int]
) -> None:
    assert changed_cells(before, after) == cells


def test_runs_join_neighbours_of_one_role() -> None:
    assert runs([("a", "text"), ("b", "text"), ("c", "hit"), ("d", "text")]) == [
        ("ab", "text"),
        ("c", "hit"),
        ("d", "text"),
    ]


def test_runs_give_spaces_to_a_neighbour_on_the_same_ground() -> None:
    assert runs([("a", "hit"), (" ", "text"), ("b", "miss")]) == [("a ", "hit"), ("b", "miss")]
    assert runs([(" ", "text"), ("b", "miss")]) == [(" b", "miss")]
    on_another = [("a", "hit@selected"), (" ", "text"), ("b", "miss@selected")]
    assert runs(on_another) == on_another


def test_on_ground_replaces_the_ground() -> None:
    assert on_ground([("a", "accepted"), ("b", "text@surface")], "selected") == [
        ("a", "accepted@selected"),
        ("b", "text@selected"),
    ]


def test_panel_is_a_box_when_high_and_a_rule_when_low() -> None:
    title = Title(number=1, name="text", note=[("note", "muted")])
    body: list[Line] = [[("body", "text")]]
    box = [plain(line) for line in in_panel(title, body, 24, 8, UNICODE)]
    assert box[0] == "┌─ 1 TEXT ────── note ─┐"
    assert box[1] == "│ body                 │"
    assert box[-1] == "└" + "─" * 22 + "┘"
    low = [plain(line) for line in in_panel(title, body, 24, 3, UNICODE)]
    assert low == ["─ 1 text ──────── note ─", " body" + " " * 19, " " * 24]


@given(st.integers(0, 60), st.integers(0, 20))
def test_panel_is_exactly_its_size(cells: int, height: int) -> None:
    title = Title(number=3, name="round 漢", note=[("a note", "muted")])
    lines = in_panel(title, [[("some body 漢字", "text")]] * 30, cells, height, UNICODE)
    assert [line_width(line) for line in lines] == [cells] * height


@pytest.mark.parametrize("name", theme_names())
def test_palette_styles_every_role(name: str) -> None:
    palette = Palette(load_theme(name))
    for role in ROLES:
        assert palette.style(role).color is not None
        assert palette.style(f"{role}@selected").bgcolor == palette.style("text@selected").bgcolor


def test_palette_refuses_an_unknown_role() -> None:
    with pytest.raises(KeyError):
        Palette(load_theme("ansi")).style("nonsense")


def test_palette_without_color_uses_none() -> None:
    palette = Palette(load_theme("specmon-dark"), no_color=True)
    for role in ROLES:
        style = palette.style(f"{role}@selected")
        assert style.color is None
        assert style.bgcolor is None
        assert style.reverse


def test_ansi_theme_stays_within_sixteen_colours() -> None:
    palette = Palette(load_theme("ansi"))
    for role in ROLES:
        color = palette.style(role).color
        assert isinstance(color, Color)
        assert color.is_default or (color.number is not None and color.number < 16)


@pytest.mark.parametrize("name", theme_names())
def test_textual_accepts_the_theme(name: str) -> None:
    assert textual_theme(load_theme(name)).to_color_system().generate()


def test_figures_are_written_as_everywhere() -> None:
    assert (ms(3_900_000), us(3_900_000), percent(0.923)) == ("3.90", "3,900", "92 %")
    assert (short(0.385, 3), short(1.0), short(None), short(0.0)) == (".385", "1.00", "–", ".00")
    assert (gigabytes(3.327e12), gigabytes(8.25e9)) == ("3,327", "8.2")
    assert (ms(None), percent(None), gigabytes(None)) == ("n/a",) * 3
    assert (size(300_000), size(1_500), size(2_500_000_000)) == ("0.3 MB", "1.5 kB", "2.5 GB")


def test_ansi_selection_is_reversed_since_no_ground_is_sure_to_be_readable() -> None:
    palette = Palette(load_theme("ansi"))
    assert palette.style("accepted@selected").reverse
    assert not palette.style("accepted").reverse


LINES = st.lists(
    st.tuples(st.text("ab漢", min_size=1, max_size=3), st.sampled_from(["text", "hit"])), max_size=6
)


@given(LINES, LINES, st.integers(1, 20))
def test_changed_cells_hold_every_difference(before: Line, after: Line, cells: int) -> None:
    before, after = fit(before, cells), fit(after, cells)
    start, end = changed_cells(before, after)

    def outside(line: Line) -> list[tuple[int, str, str]]:
        """Characters with their place and role, but those inside start..end."""
        found, place = [], 0
        for text, role in line:
            for char in text:
                if not start <= place < end:
                    found.append((place, char, role))
                place += width(char)
        return found

    assert outside(before) == outside(after)


def test_times_of_a_recording_are_those_that_have_passed() -> None:
    assert (clock(1_999_999), clock(61_500_900_000), clock(-5)) == ("0:00.001", "1:01.500", "0:00.000")
