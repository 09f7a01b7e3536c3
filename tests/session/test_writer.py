"""What lies in the file: frames, marks, sizes, permissions; and what closing makes of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import Event, Header, Lane, Log, Marker, Round, Vocabulary
from specmon.core.session import compact as compaction
from specmon.core.session.compact import compact
from specmon.core.session.reader import SessionReader
from specmon.core.session.writer import SessionWriter

HEADER = Header(t=0, utc_start="2026-11-29T20:51:07+00:00")

Write = Callable[..., Path]


def read(path: Path) -> list[Event]:
    with SessionReader.open(path) as reader:
        found = list(reader.events())
        assert reader.warnings == ()
    return found


def test_session_round_trips(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4)
    without = [event for event in events if not isinstance(event, Vocabulary)]
    assert [event for event in read(path) if not isinstance(event, Vocabulary)] == without


def test_open_recording_round_trips_exactly(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    with SessionReader.open(path) as reader:
        assert list(reader.events()) == events
        assert [warning[:32] for warning in reader.warnings] == ["The recording was not closed: it"]


def test_closing_merges_vocabularies_behind_the_lanes(write: Write, events: list[Event]) -> None:
    found = read(write(events, frame_events=2))
    assert [i for i, event in enumerate(found) if isinstance(event, Vocabulary)] == [2]
    assert found[2] == Vocabulary(t=10, pieces={5: " a", 6: "é", 7: " c"})


def test_vocabulary_that_contradicts_stays_in_place(write: Write) -> None:
    stays = Vocabulary(t=3, pieces={1: "b"})
    found = read(write([HEADER, Vocabulary(t=1, pieces={1: "a"}), Marker(t=2, label="x"), stays]))
    assert found[1] == Vocabulary(t=0, pieces={1: "a"})
    assert found[-1] == stays


def test_vocabulary_of_a_recording_of_headers_alone_is_kept(write: Write) -> None:
    lane = Lane(t=1, decoder="ar", target="x")
    vocabulary = Vocabulary(t=2, pieces={1: "a"})
    assert read(write([HEADER, lane, vocabulary], frame_events=1)) == [
        HEADER,
        lane,
        Vocabulary(t=1, pieces={1: "a"}),
    ]


def test_closing_rewrites_small_frames(write: Write, stream: Callable[..., Any]) -> None:
    events = [HEADER, *stream(1).rounds(300)]
    small = write(events, "open.session", frame_events=5, closed=False)
    closed = write(events, frame_events=5)
    assert len(SessionReader.open(small).frames) == 61
    frames = SessionReader.open(closed).frames
    assert [frame.events for frame in frames[:6]] == [15] * 6
    assert all(frame.events <= frame.first_event // 4 for frame in frames[6:])
    assert len(frames) < 15
    assert read(closed) == events
    assert closed.stat().st_size < small.stat().st_size


def test_frame_holds_at_most_100_events(write: Write, stream: Callable[..., Any]) -> None:
    path = write([HEADER, *stream(1).rounds(250)], frame_events=10_000, closed=False)
    assert [frame.events for frame in SessionReader.open(path).frames] == [100, 100, 51]


def test_frame_older_than_a_quarter_second_is_written(tmp_path: Path) -> None:
    now = [0]
    path = tmp_path / "a.session"
    writer = SessionWriter(path, clock=lambda: now[0])
    writer.write(HEADER)
    now[0] = 249_999_999
    writer.write(Marker(t=1, label="a"))
    writer.flush_if_due(now[0])
    assert path.stat().st_size == writer.bytes_written == 0
    now[0] += 1
    writer.flush_if_due(now[0])
    assert SessionReader.open(path).frames[0].events == 2
    now[0] += 1
    writer.write(Marker(t=2, label="b"))
    assert len(SessionReader.open(path).frames) == 1
    now[0] += 250_000_000
    writer.write(Marker(t=3, label="c"))
    assert [frame.events for frame in SessionReader.open(path).frames] == [2, 2]
    assert path.stat().st_size == writer.bytes_written


def test_marks_tell_where_each_frame_starts(write: Write, stream: Callable[..., Any]) -> None:
    rounds = stream(1).rounds(250)
    path = write([HEADER, *rounds], closed=False)
    frames = SessionReader.open(path).frames
    assert [(f.first_event, f.rounds_before, f.rounds) for f in frames] == [
        (0, 0, 99),
        (100, 99, 100),
        (200, 199, 51),
    ]
    assert [(f.turn, f.round, f.t) for f in frames[1:]] == [(1, 99, rounds[99].t), (1, 199, rounds[199].t)]
    with SessionReader.open(path) as reader:
        assert list(reader.events_from(1)) == rounds[99:]


def test_every_frame_is_plain_zstd_with_a_checksum(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4)
    with zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True) as stream:
        text = stream.read()
    assert text.count(b"\n") == len(events) - 1
    data = path.read_bytes()
    for frame in SessionReader.open(path).frames:
        assert zstandard.get_frame_parameters(data[frame.data_offset : frame.end]).has_checksum


def test_keys_leave_out_branch_tokens_only(tmp_path: Path, stream: Callable[..., Any]) -> None:
    rounds = stream(1, fan_out=2).rounds(20)
    with SessionWriter(tmp_path / "a.session", branches="keys") as writer:
        for event in [HEADER, *rounds]:
            writer.write(event)
    found = [event for event in read(tmp_path / "a.session") if isinstance(event, Round)]
    assert {branch.tokens for event in found for branch in event.branches} == {()}
    assert [event.draft for event in found] == [event.draft for event in rounds]
    assert [[b[:4] for b in map(tuple_of, event.branches)] for event in found] == [
        [b[:4] for b in map(tuple_of, event.branches)] for event in rounds
    ]


def tuple_of(branch: Any) -> tuple[Any, ...]:
    return branch.accepted_len, branch.bonus, branch.rank, branch.probability


@pytest.mark.parametrize(("fan_out", "megabytes"), [(0, 5.0), (4, 8.0)])
def test_50_000_rounds_stay_small(
    tmp_path: Path,
    stream: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    fan_out: int,
    megabytes: float,
) -> None:
    n = 4_000  # the frames that come after are all of full size
    with SessionWriter(tmp_path / "a.session", branches="keys") as writer:
        for event in [HEADER, *stream(3, fan_out=fan_out).rounds(n)]:
            writer.write(event)
    assert writer.bytes_written == (tmp_path / "a.session").stat().st_size
    monkeypatch.setattr(compaction, "LEAST_FRAME_EVENTS", compaction.FRAME_EVENTS)
    in_full_frames = compact(tmp_path / "a.session")
    small_frames_cost = writer.bytes_written - in_full_frames
    assert small_frames_cost > 0
    assert in_full_frames * 50_000 / n + small_frames_cost <= megabytes * 1e6


def test_file_is_private_also_after_closing(write: Write, events: list[Event]) -> None:
    old_mask = os.umask(0)
    try:
        paths = [write(events, "open.session", closed=False), write(events)]
    finally:
        os.umask(old_mask)
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]


def test_existing_file_is_refused_and_unharmed(tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    path.write_text("precious")
    with pytest.raises(UsageError, match="--force"):
        SessionWriter(path)
    assert path.read_text() == "precious"


def test_force_replaces_the_file_but_not_its_other_names(tmp_path: Path) -> None:
    path, other = tmp_path / "a.session", tmp_path / "b.session"
    other.write_text("precious")
    path.hardlink_to(other)
    with SessionWriter(path, force=True) as writer:
        writer.write(HEADER)
    assert read(path) == [HEADER]
    assert other.read_text() == "precious"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["missing/a.session", "pipe", "link/a.session", "a\0b", "x" * 300])
def test_unusable_paths_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SpecmonError) as caught:
        SessionWriter(tmp_path / name, force=True)
    assert caught.value.message.endswith(".")


def test_folder_gets_a_file_named_by_date_decoder_and_target(tmp_path: Path) -> None:
    events = [
        HEADER,
        Lane(t=1, lane=0, decoder="sd", target="/models/Qwen 2.5 \x1b[0m7B/"),
        Lane(t=2, lane=1, decoder="ssd", target="x"),
        Marker(t=3, label="a"),
    ]
    names = []
    for _ in range(2):
        with SessionWriter(tmp_path) as writer:
            for event in events:
                writer.write(event)
        names.append(writer.path.name)
        assert read(writer.path) == events
    assert names == [
        "20261129-205107_sd-ssd_Qwen-2.5-0m7B.session",
        "20261129-205107_sd-ssd_Qwen-2.5-0m7B_2.session",
    ]


def test_folder_without_events_gets_no_file(tmp_path: Path) -> None:
    SessionWriter(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_header_comes_first_and_nothing_after_close(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "a.session")
    with pytest.raises(ValueError, match="Header"):
        writer.write(Marker(t=1, label="x"))
    writer.write(HEADER)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(Marker(t=1, label="x"))


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_failed_compaction_leaves_the_recording(
    write: Write, events: list[Event], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner = Path if call == "replace" else os
    monkeypatch.setattr(owner, call, refuse)
    path = write(events, frame_events=4)
    monkeypatch.undo()
    assert read(path) == events
    assert list(path.parent.iterdir()) == [path]
    compact(path)
    assert len(read(path)) == len(events) - 1


def test_compaction_twice_changes_nothing(
    write: Write, events: list[Event], stream: Callable[..., Any]
) -> None:
    path = write([*events, *stream(1).rounds(300)], frame_events=3)
    once = path.read_bytes()
    compact(path)
    assert path.read_bytes() == once


def test_compaction_leaves_a_damaged_file_alone(write: Write, events: list[Event]) -> None:
    path = write(events, frame_events=4, closed=False)
    before = path.read_bytes()
    with pytest.raises(SpecmonError, match="not closed"):
        compact(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_compaction_splits_large_recordings(
    write: Write, stream: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "LEAST_FRAME_EVENTS", 120)
    monkeypatch.setattr(compaction, "FRAME_EVENTS", 120)
    events = [HEADER, *stream(1, fan_out=1).rounds(500)]
    path = write(events, frame_events=50)
    assert [frame.events for frame in SessionReader.open(path).frames] == [100, 100, 100, 100, 101]
    assert read(path) == events


def test_event_too_large_for_a_frame_is_refused_and_the_rest_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmon.core.session.build.MAX_RAW_BYTES", 2_000)
    with SessionWriter(tmp_path / "a.session") as writer:
        writer.write(HEADER)
        with pytest.raises(ValueError, match="not fit"):
            writer.write(Log(t=1, level="INFO", text="x" * 2_000))
        writer.write(Marker(t=2, label="a"))
    assert read(tmp_path / "a.session") == [HEADER, Marker(t=2, label="a")]


def test_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    writer = SessionWriter(tmp_path / "a.session")
    writer.write(HEADER)
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(SpecmonError, match="no space left on device"):
        writer.flush()
