"""The outline behind a closed file: it says what skimming says, and a bad one only costs time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmon.core.events import Event, Header, Log, Marker
from specmon.core.session.index import MAGIC, FrameIndex
from specmon.core.session.outline import read_outline
from specmon.core.session.reader import SessionReader
from specmon.core.session.skim import Skim, skim

Write = Callable[..., Path]


@pytest.fixture
def path(write: Write, stream: Callable[..., Any]) -> Path:
    """A closed file of several frames, with misses, log lines and a mark."""
    made = stream(1, fan_out=1)
    return write(
        [
            Header(t=0),
            *made.rounds(1500),
            Log(t=1, level="INFO", text="x"),
            Marker(t=2, label="m"),
            *made.rounds(2600),
        ],
        closed=True,
    )


def index_of(path: Path) -> FrameIndex:
    with path.open("rb") as file:
        return FrameIndex.build(file.fileno())


def outline_of(path: Path) -> list[Skim] | None:
    index = index_of(path)
    assert index.end is not None
    with path.open("rb") as file:
        rows = read_outline(file.fileno(), index.end.end, index.frames)
    return None if rows is None else [row.skim() for row in rows]


def plain(skimmed: Skim) -> list[Any]:
    columns = ("lines", "lanes", "turns", "t1", "ns", "missed", "discarded")
    return [skimmed.n_lines, skimmed.others, *(list(getattr(skimmed, name)) for name in columns)]


def test_outline_says_what_skimming_says(path: Path) -> None:
    index = index_of(path)
    outline = outline_of(path)
    assert len(index.frames) > 2
    assert outline is not None
    with path.open("rb") as file:
        for info, told in zip(index.frames, outline, strict=True):
            assert plain(told) == plain(skim(index.raw(file.fileno(), info)))
    assert any(told.missed for told in outline)


def test_long_file_has_an_outline_in_pieces(
    path: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    monkeypatch.setattr("specmon.core.session.outline.FRAMES", 1)
    events = list(SessionReader.open(path).events())
    path.unlink()
    again = write(events, closed=True)
    assert again.read_bytes().count(MAGIC) == len(index_of(again).frames)
    assert outline_of(again) is not None


def test_file_cut_inside_its_outline_is_whole_and_skimmed(path: Path, events: list[Event]) -> None:
    data, end = path.read_bytes(), index_of(path).end
    assert end is not None
    whole = list(SessionReader.open(path).events())
    for size in (end.end, end.end + 1, end.end + 7, end.end + 30, len(data) - 1):
        path.write_bytes(data[:size])
        with SessionReader.open(path) as reader:
            assert reader.warnings == ()
            assert outline_of(path) is None
            assert len(reader.skim(0).lines) > 0
            assert list(reader.events()) == whole


def test_altered_outline_is_not_believed(path: Path) -> None:
    data, end = bytearray(path.read_bytes()), index_of(path).end
    assert end is not None
    for offset in range(end.end, len(data), max((len(data) - end.end) // 40, 1)):
        hurt = bytearray(data)
        hurt[offset] ^= 255
        path.write_bytes(hurt)
        if offset >= end.end + len(MAGIC):
            assert outline_of(path) is None
        with SessionReader.open(path) as reader:
            assert len(reader.skim(0).lines) > 0


def test_outline_of_other_frames_is_not_believed(
    path: Path, write: Write, stream: Callable[..., Any]
) -> None:
    end = index_of(path).end
    assert end is not None
    outline = path.read_bytes()[end.end :]
    path.unlink()
    other = write([Header(t=0), *stream(2).rounds(5)], closed=True)
    end = index_of(other).end
    assert end is not None
    other.write_bytes(other.read_bytes()[: end.end] + outline)
    assert outline_of(other) is None
    with SessionReader.open(other) as reader:
        assert len(reader.skim(0).lines) == 5


def test_numbers_too_large_for_an_outline_leave_the_file_without_one(
    write: Write, stream: Callable[..., Any]
) -> None:
    (round_,) = stream(1).rounds(1)
    from msgspec.structs import replace

    path = write([Header(t=0), replace(round_, t=0, t0=0, t1=2**63)], closed=True)
    assert outline_of(path) is None
    with SessionReader.open(path) as reader:
        assert len(list(reader.events())) == 2
        assert reader.warnings == ()
