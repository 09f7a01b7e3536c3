"""A recording read while it grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import Event, Gap, Header, Marker
from specmon.core.session.follow import FrameStream, follow
from specmon.core.session.reader import SessionReader
from specmon.core.session.writer import SessionWriter

HEADER = Header(t=0)
Write = Callable[..., Path]


def take(source: Iterator[Event | None]) -> list[Event]:
    """What there is now."""
    found = []
    for event in source:
        if event is None:
            break
        found.append(event)
    return found


def test_follow_yields_events_as_they_are_flushed(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "a.session")
    source = follow(writer.path)
    assert take(source) == []
    writer.write(HEADER)
    assert take(source) == []
    writer.flush()
    assert take(source) == [HEADER]
    marks: list[Event] = [Marker(t=t, label="x") for t in range(3)]
    for mark in marks:
        writer.write(mark)
        writer.flush()
    assert take(source) == marks
    writer.close()
    assert list(source) == []


def cut(path: Path) -> None:
    with path.open("w"):
        pass


def replace(path: Path) -> None:
    path.with_name("b").write_bytes(b"other")
    path.with_name("b").replace(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [(cut, "was cut"), (replace, "was replaced"), (Path.unlink, "is gone")],
    ids=["cut", "replaced", "removed"],
)
def test_follow_says_what_became_of_the_file_and_ends(
    write: Write, events: list[Event], change: Callable[[Path], None], said: str
) -> None:
    path = write(events, closed=False)
    warnings: list[str] = []
    source = follow(path, warn=warnings.append)
    assert take(source) == events
    assert next(source) is None
    assert warnings == []
    change(path)
    assert list(source) == []
    assert warnings == [f"{path.name} {said}: showing what was read."]


def test_follow_reads_what_was_written_before_the_file_was_removed(
    write: Write, events: list[Event], tmp_path: Path
) -> None:
    whole = write(events, frame_events=3)
    data = whole.read_bytes()
    path = tmp_path / "late.session"
    path.write_bytes(data[:900])
    warnings: list[str] = []
    source = follow(path, warn=warnings.append)
    first = take(source)
    with path.open("ab") as out:
        out.write(data[900:])
    path.unlink()
    assert first + list(source) == list(SessionReader.open(whole).events())
    assert warnings == []  # it was closed before it went


def test_follow_of_a_closed_file_ends(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=3)
    assert list(follow(path)) == list(SessionReader.open(path).events())


def test_follow_waits_for_the_rest_of_a_frame(write: Write, events: list[Event], tmp_path: Path) -> None:
    data = write(events, frame_events=5, closed=False).read_bytes()
    path = tmp_path / "slow.session"
    path.touch()
    source = follow(path)
    found = []
    with path.open("ab", buffering=0) as out:
        for start in range(0, len(data), 97):
            out.write(data[start : start + 97])
            found += take(source)
    assert found == events


def test_follow_reads_a_pipe_to_its_end(write: Write, events: list[Event]) -> None:
    data = write(events, frame_events=5, closed=False).read_bytes()
    reading, writing = os.pipe()
    try:
        source = follow("-", stdin=reading)
        assert next(source) is None
        os.write(writing, data[:700])
        first = take(source)
        os.write(writing, data[700:])
        os.close(writing)
        assert first + list(source) == events
    finally:
        os.close(reading)


@pytest.mark.parametrize("position", ["mark", "data"])
def test_follow_goes_on_behind_damage(write: Write, events: list[Event], position: str) -> None:
    path = write(events, frame_events=4, closed=False)
    frame = SessionReader.open(path).frames[2]
    data = bytearray(path.read_bytes())
    data[frame.offset + 10 if position == "mark" else frame.data_offset + 15] ^= 1
    path.write_bytes(data)
    found = take(follow(path))
    assert found[:8] == events[:8]
    assert isinstance(found[8], Gap)
    assert found[8].count == 4
    assert found[9:] == events[12:]


def test_follow_agrees_with_the_reader_on_every_flip(write: Write, events: list[Event]) -> None:
    path = write([*events[:3], *events[5:7]], frame_events=2, closed=False)
    data = path.read_bytes()
    for position in range(0, len(data), 3):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        path.write_bytes(flipped)
        try:
            expected = list(SessionReader.open(path).events())
        except SpecmonError:
            with pytest.raises(SpecmonError):
                take(follow(path))
            continue
        found = take(follow(path))
        assert found == expected[: len(found)]
        assert len(expected) - len(found) <= 4


@pytest.mark.parametrize("content", [b"hello world, not a session", b"\x5e\x2a\x4d\x18" + b"a" * 80])
def test_follow_refuses_what_is_no_session(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.session"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"not a \.session"):
        list(follow(path))


def test_follow_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        list(follow(tmp_path / "none.session"))


def test_follow_refuses_a_newer_major(write: Write) -> None:
    path = write([Header(t=0, schema="7.0")])
    with pytest.raises(SpecmonError, match=r"schema 7\.0"):
        list(follow(path))


def test_stream_of_junk_behind_the_header_keeps_little(write: Write, events: list[Event]) -> None:
    stream = FrameStream("pipe")
    assert list(stream.feed(write(events, closed=False).read_bytes())) == events
    junk = b"\x5e\x2a\x4d\x18\x40\0\0\0SPMN"
    for _ in range(3):
        assert list(stream.feed(junk * 20_000)) == []
    assert len(stream._buffer) < 300
