"""The table of expectations names 25 of them, and for each at least one test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", (TESTS / "UX.md").read_text(), re.MULTILINE)


def test_table_has_every_expectation_once() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 26))


@pytest.mark.parametrize(("number", "held_by"), ROWS, ids=[number for number, _ in ROWS])
def test_expectation_is_held_by_a_test_that_is_there(number: str, held_by: str) -> None:
    names = re.findall(r"`([^`]+)`", held_by)
    assert names, number
    for name in names:
        file, _, test = name.partition("::")
        source = (TESTS / file).read_text()
        assert re.search(rf"^(async )?def {test or 'test_'}", source, re.MULTILINE), name
