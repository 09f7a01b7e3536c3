from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.tui.widgets.cells import clip, clusters, pad, safe_text, width, wrapped


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\nb\r", "a↵b␍"),
        ("a\tb", "a b"),
        ("\x7f", "␡"),
        ("\x9b31m", "<9b>31m"),
        ("abc\u202etxt.exe", "abc<202e>txt.exe"),
        ("zero\u200bwidth", "zero<200b>width"),
        ("\ud800", "<d800>"),
        ("\u2028", "<2028>"),
        ("👩\u200d💻", "👩💻"),
        ("❤\ufe0f", "❤"),
        ("é漢", "é漢"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_safe_text_shows_what_a_terminal_would_obey(text: str, safe: str) -> None:
    assert safe_text(text) == safe


def test_safe_text_in_ascii_uses_carets() -> None:
    assert safe_text("\x1b[0m\n\x7f", ascii=True) == "^[[0m\\n^?"


def test_safe_text_takes_another_newline() -> None:
    assert safe_text("a\nb", newline=" ") == "a b"


@given(st.text(st.characters()))
def test_safe_text_leaves_nothing_to_obey(text: str) -> None:
    for ascii in (False, True):
        safe = safe_text(text, ascii)
        assert all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in safe)
        assert not set(safe) & set("\u200b\u200d\u202a\u202e\u2066\ufeff")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_clusters_keep_the_text_and_its_width(text: str) -> None:
    safe = safe_text(text)
    parts = list(clusters(safe))
    assert "".join(part for part, _ in parts).replace(" ", "") == safe.replace(" ", "")
    assert all(cells in (1, 2) for _, cells in parts)


@given(st.text(), st.integers(-1, 12))
def test_clip_never_exceeds_its_cells(text: str, cells: int) -> None:
    clipped = clip(safe_text(text), cells)
    assert width(clipped) <= max(cells, 0)


def test_clip_never_halves_a_wide_character() -> None:
    assert clip("漢漢漢", 4) == "漢…"
    assert clip("漢漢", 4) == "漢漢"
    assert clip("漢", 1) == "…"


def test_clip_keeps_combining_marks_together() -> None:
    assert clip("e\u0301e\u0301e\u0301", 2) == "e\u0301…"


def test_a_lone_combining_mark_stands_on_a_space() -> None:
    assert list(clusters("\u0301a")) == [(" \u0301", 1), ("a", 1)]


@given(st.text(), st.integers(0, 12), st.sampled_from("<>"))
def test_pad_fills_exactly(text: str, cells: int, align: str) -> None:
    assert width(pad(safe_text(text), cells, align)) == cells


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("merge two lists", ["merge two", "lists"]),
        ("merge two sorted lists", ["merge two", "sorted", "lists"]),
        ("merges two", ["merges two"]),
        ("merges many things", ["merges", "many", "things"]),
        ("a incomprehensible b", ["a incompre", "hensible b"]),
        ("one two three four five six seven", ["one two", "three four", "five six …"]),
        ("日本語日本語", ["日本語日本", "語"]),
    ],
)
def test_wrapped_breaks_at_spaces_and_cuts_the_last_row(text: str, rows: list[str]) -> None:
    assert wrapped(text, 10, 3) == rows


@given(st.text(max_size=80), st.integers(2, 30), st.integers(1, 4))
def test_wrapped_never_exceeds_its_room(text: str, cells: int, rows: int) -> None:
    lines = wrapped(safe_text(text), cells, rows)
    assert 1 <= len(lines) <= rows
    assert all(width(line) <= cells for line in lines)
