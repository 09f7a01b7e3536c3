"""Recordings of every release open, whatever was added since."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmon.core.events import SCHEMA, AnyEvent, Event, Round, Turn, Vocabulary
from specmon.core.session.reader import SessionReader

RELEASED = sorted((Path(__file__).parent / "data").glob("schema-*.session"))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_released_recording_opens_whole(path: Path, events: list[Event]) -> None:
    with SessionReader.open(path) as reader:
        found = list(reader.events())
        assert reader.warnings == ()
    assert {type(event) for event in found} <= set(AnyEvent.__args__)
    rounds = [event for event in found if isinstance(event, Round)]
    assert [event.emitted for event in rounds] == [
        event.emitted for event in events if isinstance(event, Round)
    ]
    assert [event.spans for event in rounds] == [event.spans for event in events if isinstance(event, Round)]
    assert [event.prompt for event in found if isinstance(event, Turn)] == ["Say \x1b[31mred\n"]
    assert sum(isinstance(event, Vocabulary) for event in found) == 1


def test_there_is_a_recording_of_this_schema() -> None:
    assert RELEASED[-1].stem == f"schema-{SCHEMA}"
