"""Where the parts go: nothing overlaps, nothing is left uncovered, at any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region

from specmon.tui.screens.arrangement import (
    MIN_HEIGHT,
    MIN_WIDTH,
    PANELS,
    Chrome,
    Places,
    arrange,
    too_small,
)
from specmon.tui.screens.race_arrangement import arrange_race

widths, heights = st.integers(MIN_WIDTH, 400), st.integers(MIN_HEIGHT, 150)
CHROMES = [
    Chrome(),
    Chrome(prompt_rows=5),
    Chrome((("status", 1), ("why", 1), ("strip", 5)), prompt_rows=0),
    Chrome((("status", 1), ("why", 1), ("strip", 3)), prompt_rows=0),
]


def assert_tiles(places: Places, width: int, height: int) -> None:
    """Every cell of the terminal belongs to exactly one part, and every part has cells."""
    assert all(region.width > 0 and region.height > 0 for region in places.values())
    assert sum(region.area for region in places.values()) == width * height
    regions = list(places.values())
    for i, a in enumerate(regions):
        assert Region(0, 0, width, height).contains_region(a)
        assert not any(a.overlaps(b) for b in regions[i + 1 :])


@given(widths, heights, st.sampled_from(CHROMES), st.sampled_from([None, *PANELS, "log"]))
def test_cockpit_tiles_the_terminal(width: int, height: int, chrome: Chrome, zoom: str | None) -> None:
    assert_tiles(arrange(width, height, chrome, zoom), width, height)


@given(widths, heights, st.integers(2, 4), st.sampled_from([0, 5]))
def test_race_tiles_the_terminal(width: int, height: int, lanes: int, strip_rows: int) -> None:
    assert_tiles(arrange_race(width, height, lanes, strip_rows=strip_rows), width, height)


@pytest.mark.parametrize(("width", "height"), [(79, 24), (40, 10), (20, 10)])
def test_too_small_message_fits_and_gives_both_sizes(width: int, height: int) -> None:
    lines = too_small(width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    said = "".join(lines)
    assert "80×24" in said
    assert f"{width}×{height}" in said


@pytest.mark.parametrize(("width", "height"), [(79, 24), (80, 23), (1, 1), (0, 0)])
def test_too_small_shows_only_the_message(width: int, height: int) -> None:
    assert set(arrange(width, height, Chrome())) == {"too-small"}
    assert set(arrange_race(width, height, 3)) == {"too-small"}


def test_full_cockpit_has_all_panels_from_140_by_40() -> None:
    assert set(PANELS) <= set(arrange(140, 40, Chrome()))
    assert "shares" not in arrange(139, 40, Chrome())


def test_smallest_cockpit_matches_its_drawing() -> None:
    places = arrange(80, 24, Chrome())
    rows = {name: (region.y, region.height) for name, region in places.items()}
    assert rows == {
        "status": (0, 1),
        "why": (1, 1),
        "text": (2, 7),
        "timeline": (9, 4),
        "round": (13, 3),
        "bandwidth": (16, 4),
        "ms-per-token": (16, 4),
        "acceptance": (20, 2),
        "prompt": (22, 1),
        "hints": (23, 1),
    }
