"""Files as they come: whole, cut, altered, hostile, newer."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import SCHEMA, Event, Gap, Header, Marker, Vocabulary
from specmon.core.session.codec import Encoder, Unknown, encode
from specmon.core.session.compact import compact
from specmon.core.session.frames import MARK_BYTES, FrameInfo, compress, pack_end, pack_mark
from specmon.core.session.reader import SessionReader
from specmon.core.session.writer import SessionWriter

HEADER = Header(t=0, utc_start="2026-11-29T20:51:07+00:00")

Write = Callable[..., Path]


def read(path: Path) -> tuple[list[Event], tuple[str, ...]]:
    with SessionReader.open(path) as reader:
        return list(reader.events()), reader.warnings


def craft(path: Path, frames: list[list[bytes]], *, end: bool = True) -> Path:
    """A file of these lines, as any program that knows the format could write it."""
    data, count = b"", 0
    for lines in frames:
        raw = b"".join(line + b"\n" for line in lines)
        block = compress(raw, 3)
        mark = pack_mark(
            FrameInfo(
                data_bytes=len(block),
                raw_bytes=len(raw),
                events=len(lines),
                rounds=0,
                first_event=count,
                rounds_before=0,
                t=0,
            )
        )
        data += mark + block
        count += len(lines)
    path.write_bytes(data + (pack_end(count, 0, 0) if end else b""))
    return path


def without_gaps(events: list[Event]) -> list[Event]:
    return [
        event for event in events if not (isinstance(event, Gap) and event.reason == "damaged in the file")
    ]


def is_subsequence(part: list[Event], whole: list[Event]) -> bool:
    rest: Iterator[Event] = iter(whole)
    return all(any(event == other for other in rest) for event in part)


@pytest.fixture
def few(stream: Callable[..., Any]) -> list[Event]:
    """Little enough to try every byte of its file."""
    return [HEADER, Marker(t=1, label="a"), *stream(1, fan_out=1).rounds(2), Marker(t=10**8, label="b")]


@pytest.mark.parametrize("closed", [True, False])
def test_cut_at_every_byte_keeps_all_whole_frames_and_warns(
    write: Write, few: list[Event], closed: bool
) -> None:
    path = write(few, frame_events=2, closed=closed)
    data, frames = path.read_bytes(), SessionReader.open(path).frames
    for n in range(len(data)):
        path.write_bytes(data[:n])
        if n < frames[0].end:
            with pytest.raises(SpecmonError):
                SessionReader.open(path)
            continue
        found, warnings = read(path)
        assert found == few[: sum(frame.events for frame in frames if frame.end <= n)]
        is_whole = closed and n >= frames[-1].end + MARK_BYTES  # only the outline is cut
        assert len(warnings) == (not is_whole)


@pytest.mark.parametrize("n", [60, 300, 2_000])
def test_closed_file_cut_to_nine_tenths_keeps_most(write: Write, stream: Callable[..., Any], n: int) -> None:
    events = [HEADER, *stream(1).rounds(n)]
    path = write(events, frame_events=8)
    with SessionReader.open(path) as reader:
        os.truncate(path, reader.frames[-1].end * 9 // 10)
    with SessionReader.open(path) as reader:
        kept = list(reader.events())
        assert len(reader.warnings) == 1
    assert kept == events[: len(kept)]
    assert len(kept) >= 0.65 * len(events)


@pytest.mark.parametrize("closed", [True, False])
def test_flip_of_any_byte_never_alters_an_event(write: Write, few: list[Event], closed: bool) -> None:
    path = write(few, frame_events=2, closed=closed)
    data = path.read_bytes()
    before, clean_warnings = read(path)
    rnd = random.Random(5)
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << rnd.randrange(8)
        path.write_bytes(flipped)
        try:
            found, warnings = read(path)
        except SpecmonError:
            continue
        assert found == before or warnings != clean_warnings
        assert is_subsequence(without_gaps(found), before)


def test_damaged_frame_is_replaced_by_a_gap_of_its_size(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    frames = SessionReader.open(path).frames
    data = bytearray(path.read_bytes())
    data[frames[1].data_offset + 20] ^= 4
    path.write_bytes(data)
    found, warnings = read(path)
    assert found[:4] == events[:4]
    assert found[5:] == events[8:]
    assert found[4] == Gap(t=frames[1].t, count=4, reason="damaged in the file")
    assert "1 place in the file is damaged and left out." in warnings


def test_damaged_mark_costs_its_own_frame_only(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    frames = SessionReader.open(path).frames
    data = bytearray(path.read_bytes())
    data[frames[2].offset + 9] ^= 1
    path.write_bytes(data)
    found, warnings = read(path)
    assert found == [
        *events[:8],
        Gap(t=frames[3].t, count=4, reason="damaged in the file"),
        *events[12:],
    ]
    assert len(warnings) == 2


def test_reading_twice_warns_once(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    data = bytearray(path.read_bytes())
    data[SessionReader.open(path).frames[1].data_offset + 20] ^= 4
    path.write_bytes(data)
    with SessionReader.open(path) as reader:
        first = list(reader.events())
        warnings = reader.warnings
        assert list(reader.events()) == first
        assert reader.warnings == warnings


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"{}\n", "is not a .session"),
        (b"PK\x03\x04" + b"\0" * 100, "is not a .session"),
        (zstandard.compress(b'{"type":"Header","t":0}\n'), "is not a .session"),
        (b"\x5e\x2a\x4d\x18", "cut off"),
        (pack_end(0, 0, 0), "cut off"),
        (pack_end(0, 0, 0)[:20], "cut off"),
    ],
)
def test_file_that_is_no_session_is_refused_in_a_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "a.session"
    path.write_bytes(content)
    with pytest.raises(SpecmonError, match=sentence):
        SessionReader.open(path)


@pytest.mark.parametrize("name", ["missing.session", ".", "a\0b", "x" * 300])
def test_path_that_cannot_be_opened_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        SessionReader.open(tmp_path / name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "first", [b'{"type":"Marker","t":1,"label":"x"}', b"[1]", b"nonsense", b'{"type":"Header"}', b""]
)
def test_first_line_must_be_a_header(tmp_path: Path, first: bytes) -> None:
    with pytest.raises(SpecmonError, match="damaged"):
        SessionReader.open(craft(tmp_path / "a.session", [[first]]))


def test_newer_major_names_the_version_to_install(tmp_path: Path) -> None:
    header = {
        "type": "Header",
        "t": 0,
        "schema": "2.0",
        "versions": {"specmon": "3.1.0"},
        "devices": "elsewhere",
    }
    with pytest.raises(SpecmonError, match=r"schema 2\.0.* Install specmon 3\.1\.0 or newer"):
        SessionReader.open(craft(tmp_path / "a.session", [[msgspec.json.encode(header)]]))


def test_newer_major_that_hides_its_writer_is_refused_safely(tmp_path: Path) -> None:
    header = Header(t=0, schema="2.0", versions={"specmon": "\x1b[31m!"})
    with pytest.raises(SpecmonError) as caught:
        SessionReader.open(craft(tmp_path / "a.session", [[encode(header)]]))
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("schema", ["0.9", "soon", "", "\x1b[2J"])
def test_impossible_schema_is_refused(tmp_path: Path, schema: str) -> None:
    with pytest.raises(SpecmonError) as caught:
        SessionReader.open(craft(tmp_path / "a.session", [[encode(Header(t=0, schema=schema))]]))
    assert "\x1b" not in str(caught.value)


def newer_file(path: Path, **kwargs: Any) -> Path:
    lines = [
        encode(Header(t=0, schema="1.9")),
        b'{"type":"Aura","t":3,"glow":[1,2]}',
        b'{"type":"Aura","t":4}',
        b'{"type":"Marker","t":5,"label":"x","colour":"red"}',
    ]
    return craft(path, [lines], **kwargs)


def test_newer_minor_opens_and_counts_what_it_does_not_know(tmp_path: Path) -> None:
    found, warnings = read(newer_file(tmp_path / "a.session"))
    assert [type(event) for event in found] == [Header, Unknown, Unknown, Marker]
    assert warnings == (
        f"2 events of kinds unknown here kept: Aura (2) (file 1.9, reader {SCHEMA}).",
        f"1 field unknown here kept (file 1.9, reader {SCHEMA}).",
    )


def test_rounds_around_an_unknown_kind_still_refer_to_each_other(
    tmp_path: Path, stream: Callable[..., Any]
) -> None:
    encoder, rounds = Encoder(), stream(1, fan_out=1).rounds(6)
    lines = [encoder.encode(event) for event in rounds]
    assert b",null," in lines[1]
    aura = b'{"type":"Aura","t":3}'
    path = craft(tmp_path / "a.session", [[encode(HEADER), *lines[:3], aura, *lines[3:]]])
    assert [event for event in read(path)[0] if not isinstance(event, Unknown)] == [HEADER, *rounds]


def test_round_that_is_not_understood_takes_those_that_refer_to_it_along(
    tmp_path: Path, stream: Callable[..., Any]
) -> None:
    encoder, rounds = Encoder(), stream(1, fan_out=1).rounds(6)
    lines = [encoder.encode(event) for event in rounds]
    lines[2] = lines[2].replace(b'"verify"', b'"dream"')
    path = craft(tmp_path / "a.session", [[encode(HEADER), *lines]])
    found, warnings = read(path)
    assert found[:3] == [HEADER, *rounds[:2]]
    assert isinstance(found[3], Unknown)
    assert is_subsequence(found[4:], list(rounds[3:]))
    assert len(warnings) == 2


def test_unknown_kinds_and_fields_survive_rewriting(tmp_path: Path) -> None:
    path = newer_file(tmp_path / "a.session")
    compact(path)
    data = path.read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
        text = stream.read()
    assert b'{"type":"Aura","t":3,"glow":[1,2]}\n' in text
    assert b'"colour":"red"' in text


def test_unknown_kind_survives_a_writer(tmp_path: Path) -> None:
    found, _ = read(newer_file(tmp_path / "a.session"))
    with SessionWriter(tmp_path / "b.session") as writer:
        for event in found:
            writer.write(event)
    assert read(tmp_path / "b.session")[0] == found


def test_name_of_an_unknown_kind_cannot_command_the_terminal(tmp_path: Path) -> None:
    lines = [encode(HEADER), msgspec.json.encode({"type": "\x1b[2JEvil\n", "t": 1})]
    _, warnings = read(craft(tmp_path / "a.session", [lines]))
    assert "2JEvil" in warnings[0]
    assert "\x1b" not in warnings[0]
    assert "\n" not in warnings[0]


def test_lines_that_are_no_events_are_left_out_with_a_warning(tmp_path: Path) -> None:
    lines = [encode(HEADER), b"nonsense", b"", b"[" * 50_000, encode(Marker(t=1, label="x"))]
    found, warnings = read(craft(tmp_path / "a.session", [lines]))
    assert found == [HEADER, Marker(t=1, label="x")]
    assert warnings == ("3 lines could not be understood and are left out.",)


def with_mark(block: bytes, raw_bytes: int) -> bytes:
    info = FrameInfo(
        data_bytes=len(block), raw_bytes=raw_bytes, events=1, rounds=0, first_event=1, rounds_before=0, t=0
    )
    return pack_mark(info) + block


@pytest.mark.parametrize("claimed", [1, 50 << 20, 4_000_000_000])
def test_zip_bomb_is_not_unpacked(tmp_path: Path, claimed: int) -> None:
    bomb = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(b"x" * (100 << 20))
    path = craft(tmp_path / "a.session", [[encode(HEADER)]], end=False)
    path.write_bytes(path.read_bytes() + with_mark(bomb, claimed) + pack_end(2, 0, 0))
    found, warnings = read(path)
    assert found[0] == HEADER
    assert all(isinstance(event, Gap) for event in found[1:])
    assert "1 place in the file is damaged and left out." in warnings


def test_frame_without_a_known_size_or_checksum_is_refused(tmp_path: Path) -> None:
    raw = encode(Marker(t=1, label="x")) + b"\n"
    for options in ({"write_content_size": False, "write_checksum": True}, {"write_checksum": False}):
        block = zstandard.ZstdCompressor(**options).compress(raw)
        path = craft(tmp_path / "a.session", [[encode(HEADER)]], end=False)
        path.write_bytes(path.read_bytes() + with_mark(block, len(raw)))
        assert [type(event) for event in read(path)[0]] == [Header, Gap]


def test_mark_that_claims_gigabytes_is_refused_at_once(tmp_path: Path) -> None:
    path = craft(tmp_path / "a.session", [[encode(HEADER)]], end=False)
    huge = FrameInfo(
        data_bytes=2**32 - 1, raw_bytes=10, events=1, rounds=0, first_event=1, rounds_before=0, t=0
    )
    path.write_bytes(path.read_bytes() + pack_mark(huge) + b"x" * 50)
    found, warnings = read(path)
    assert found == [HEADER]
    assert len(warnings) == 2


def test_longer_mark_of_a_newer_minor_is_read(tmp_path: Path) -> None:
    import struct
    import zlib

    path = craft(tmp_path / "a.session", [[encode(HEADER)]])
    data = path.read_bytes()
    head = struct.pack("<II4s", struct.unpack("<I", data[:4])[0], MARK_BYTES - 8 + 8, data[8:12])
    numbers = data[16:MARK_BYTES] + b"\x07" * 8
    crc = struct.pack("<I", zlib.crc32(numbers, zlib.crc32(head)))
    path.write_bytes(head + crc + numbers + data[MARK_BYTES:])
    assert read(path) == ([HEADER], ())


def test_index_needs_no_intact_data(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    data = bytearray(path.read_bytes())
    frames = SessionReader.open(path).frames
    for frame in frames[1:]:
        data[frame.data_offset : frame.end] = bytes(frame.data_bytes)
    path.write_bytes(data)
    assert SessionReader.open(path).frames == frames


def test_closed_file_starts_with_its_vocabulary(write: Write, events: list[Event]) -> None:
    found, _ = read(write(events))
    assert isinstance(found[2], Vocabulary)
