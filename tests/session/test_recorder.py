"""The recorder: what it keeps, what a kill leaves, and what it does when the disk refuses."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import Event, Gap, Header, Lane, Log, Marker, Round
from specmon.core.session.reader import SessionReader
from specmon.core.session.recover import create_spool, discard, list_recoverable, recover
from specmon.core.session.spool import Recorder

HEADER = Header(t=0, utc_start="2026-11-29T20:51:07+00:00")
LANE = Lane(t=1, decoder="ssd", target="smollm2")


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "state")
    yield made
    made.close()


def mark(t: int) -> Marker:
    return Marker(t=t, label=str(t))


def put(recorder: Recorder, *events: Event) -> None:
    for event in events:
        recorder.write(event)
    assert recorder.flush()


def read(path: Path) -> list[Event]:
    with SessionReader.open(path) as reader:
        return list(reader.events())


def spool_of(recorder: Recorder) -> Path:
    assert recorder.spool_path is not None
    return recorder.spool_path


def test_spool_holds_the_stream_while_it_runs(recorder: Recorder) -> None:
    put(recorder, HEADER, LANE, mark(2))
    assert read(spool_of(recorder)) == [HEADER, LANE, mark(2)]


def test_spool_is_private(recorder: Recorder, tmp_path: Path) -> None:
    assert stat.S_IMODE(spool_of(recorder).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_close_without_keeping_leaves_nothing(recorder: Recorder, tmp_path: Path) -> None:
    put(recorder, HEADER)
    recorder.close()
    recorder.close()
    assert list((tmp_path / "state").iterdir()) == []
    assert not recorder.flush()


def test_close_writes_what_is_still_queued(recorder: Recorder, stream: Callable[..., Any]) -> None:
    for event in [HEADER, *stream(1).rounds(250)]:
        recorder.write(event)
    recorder.keep(spool_of(recorder).with_name("kept.session"))
    recorder.close()
    assert len(read(spool_of(recorder).with_name("kept.session"))) == 251


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("events", [[], [HEADER, LANE]], ids=["empty", "begun"])
def test_closing_without_keeping_deletes_the_kept_file(
    recorder: Recorder, tmp_path: Path, events: list[Event], in_folder: bool
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder.keep(folder if in_folder else folder / "kept.session")
    put(recorder, *events)
    recorder.close(keep=False)
    assert list(folder.iterdir()) == []
    assert recorder.stats().path is None
    assert not spool_of(recorder).exists()


@pytest.mark.parametrize("kept_after", [0, 1, 5])
def test_kept_file_holds_the_stream_from_its_start(
    recorder: Recorder, tmp_path: Path, kept_after: int
) -> None:
    path = tmp_path / "kept.session"
    events = [HEADER, LANE, *map(mark, range(2, 8))]
    put(recorder, *events[:kept_after])
    assert recorder.keep(path) == path
    put(recorder, *events[kept_after:])
    recorder.close()
    assert read(path) == events
    assert SessionReader.open(path).warnings == ()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert recorder.stats().path == str(path)
    assert recorder.stats().bytes == path.stat().st_size
    assert not spool_of(recorder).exists()


def test_unkept_file_ends_there_and_stays(recorder: Recorder, tmp_path: Path) -> None:
    path = tmp_path / "kept.session"
    put(recorder, HEADER, mark(1))
    recorder.keep(path)
    recorder.unkeep()
    assert recorder.stats().path is None
    recorder.flush()
    put(recorder, mark(2))
    recorder.close()
    assert read(path) == [HEADER, mark(1)]
    assert SessionReader.open(path).warnings == ()


def test_keeping_again_makes_a_second_whole_file(recorder: Recorder, tmp_path: Path) -> None:
    put(recorder, HEADER, mark(1))
    recorder.keep(tmp_path / "a.session")
    recorder.keep(tmp_path / "b.session")
    recorder.flush()
    put(recorder, mark(2))
    recorder.close()
    assert read(tmp_path / "b.session") == [HEADER, mark(1), mark(2)]
    assert read(tmp_path / "a.session") == [HEADER, mark(1)]


def test_folder_gets_a_named_file(recorder: Recorder, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder.keep(folder)
    put(recorder, HEADER, LANE)
    recorder.close()
    assert [path.name for path in folder.iterdir()] == ["20261129-205107_ssd_smollm2.session"]
    assert recorder.stats().path == str(next(folder.iterdir()))


def test_existing_file_is_refused_and_the_kept_one_goes_on(recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "a.session").write_text("precious")
    recorder.keep(tmp_path / "b.session")
    with pytest.raises(UsageError):
        recorder.keep(tmp_path / "a.session")
    put(recorder, HEADER)
    recorder.close()
    assert (tmp_path / "a.session").read_text() == "precious"
    assert read(tmp_path / "b.session") == [HEADER]


def test_stats_tell_length_and_size(recorder: Recorder, tmp_path: Path) -> None:
    put(recorder, HEADER, mark(2_500_000_000))
    stats = recorder.stats()
    assert (stats.path, stats.seconds, stats.error) == (None, 2.5, None)
    assert stats.bytes == spool_of(recorder).stat().st_size


def test_keys_only_recorder_leaves_out_branch_tokens(tmp_path: Path, stream: Callable[..., Any]) -> None:
    recorder = Recorder(tmp_path, branches="keys")
    put(recorder, HEADER, *stream(1, fan_out=1).rounds(5))
    rounds = [event for event in read(spool_of(recorder)) if isinstance(event, Round)]
    recorder.close()
    assert {branch.tokens for event in rounds for branch in event.branches} == {()}


class Flood(deque[Any]):
    """A queue in which a new event follows every one that is taken, as long as `on`."""

    on = True

    def popleft(self) -> Any:
        if self.on:
            self.append(mark(1))
        return super().popleft()


def test_kept_file_grows_and_flush_returns_under_a_flood(recorder: Recorder, tmp_path: Path) -> None:
    path = tmp_path / "kept.session"
    recorder.keep(path)
    put(recorder, HEADER)
    before = path.stat().st_size
    flood = recorder._queue = Flood([mark(1)])
    assert recorder.flush()
    assert path.stat().st_size > before
    flood.on = False
    recorder.close()
    assert read(path)[0] == HEADER
    assert {event.t for event in read(path)[1:]} == {1}


class FullDisk:
    """Makes writes fail, as a full disk does, while `full`: after half of the bytes have gone out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = os.pwrite
        monkeypatch.setattr(os, "pwrite", self._refuse)

    def _refuse(self, fd: int, data: Any, offset: int) -> int:
        if not self.full:
            return self._write(fd, data, offset)
        if len(data) > 40:
            return self._write(fd, data[: len(data) // 2], offset)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_full_disk_is_told_and_leaves_a_gap(recorder: Recorder, disk: FullDisk, tmp_path: Path) -> None:
    path = tmp_path / "kept.session"
    recorder.keep(path)
    put(recorder, HEADER, LANE, mark(2))
    disk.full = True
    put(recorder, mark(3), mark(4))
    put(recorder, mark(5))
    assert "no space left on device" in (recorder.stats().error or "")
    disk.full = False
    put(recorder, mark(6))
    assert (recorder.stats().error, recorder.stats().whole) == (None, False)
    recorder.close()
    gap = Gap(t=6, count=3, reason="the recording could not be written")
    assert read(path) == [HEADER, LANE, mark(2), gap, mark(6)]
    assert SessionReader.open(path).warnings == ()


def test_gap_is_written_at_the_end_where_nothing_follows(
    recorder: Recorder, disk: FullDisk, tmp_path: Path
) -> None:
    path = tmp_path / "kept.session"
    recorder.keep(path)
    put(recorder, HEADER)
    disk.full = True
    put(recorder, mark(3), mark(4))
    disk.full = False
    recorder.close()
    assert read(path) == [HEADER, Gap(t=4, count=2, reason="the recording could not be written")]


def test_lost_start_is_written_again(recorder: Recorder, disk: FullDisk) -> None:
    disk.full = True
    put(recorder, HEADER, LANE, mark(2), mark(3))
    disk.full = False
    put(recorder, mark(4))
    gap = Gap(t=4, count=2, reason="the recording could not be written")
    assert read(spool_of(recorder)) == [HEADER, LANE, gap, mark(4)]


def test_kept_file_that_could_not_be_written_leaves_the_spool(
    recorder: Recorder, disk: FullDisk, tmp_path: Path
) -> None:
    put(recorder, HEADER, mark(1))
    disk.full = True
    recorder.keep(tmp_path / "kept.session")
    recorder.close()
    assert "no space left on device" in (recorder.stats().error or "")
    assert recorder.stats().whole
    assert [spool.path for spool in list_recoverable(tmp_path / "state")] == [spool_of(recorder)]
    disk.full = False
    assert read(recover(spool_of(recorder), tmp_path / "saved.session")) == [HEADER, mark(1)]


def test_folder_that_cannot_hold_a_spool_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    recorder = Recorder(tmp_path / "state")
    put(recorder, HEADER)
    assert "cannot be written" in (recorder.stats().error or "")
    with pytest.raises(SpecmonError, match="cannot be written"):
        recorder.keep(tmp_path / "a.session")
    (tmp_path / "state").unlink()
    put(recorder, mark(1))
    assert recorder.stats().error is None
    assert read(spool_of(recorder)) == [HEADER, mark(1)]
    recorder.close()


@pytest.mark.parametrize("bad", [Log(t=1, level="INFO", text="\ud800"), Marker(t=2**70, label="x")])
def test_event_that_cannot_be_written_is_counted_and_the_rest_goes_on(recorder: Recorder, bad: Event) -> None:
    put(recorder, HEADER, bad, mark(2))
    put(recorder, mark(3))
    gap = Gap(t=3, count=1, reason="the recording could not be written")
    assert read(spool_of(recorder)) == [HEADER, mark(2), gap, mark(3)]


KILLED = """
import os, signal, sys
from pathlib import Path
from specmon.core.events import Header, Lane, Marker
from specmon.core.session.spool import Recorder

recorder = Recorder(Path(sys.argv[1]))
recorder.keep(sys.argv[2])
recorder.write(Header(t=0, utc_start="2026-11-29T20:51:07+00:00"))
recorder.write(Lane(t=1, decoder="sd", target="smollm2"))
recorder.write(Marker(t=2, label="x"))
recorder.flush()
recorder.write(Marker(t=3, label="y"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_process_leaves_a_recording_and_a_spool_to_recover(tmp_path: Path) -> None:
    state, kept = tmp_path / "state", tmp_path / "kept.session"
    child = subprocess.run([sys.executable, "-c", KILLED, state, kept], check=False)
    assert child.returncode == -9
    expected = [HEADER, Lane(t=1, decoder="sd", target="smollm2"), Marker(t=2, label="x")]
    (left,) = list_recoverable(state)
    path = recover(left.path, tmp_path)
    assert path.name == "20261129-205107_sd_smollm2.session"
    assert read(path) == expected
    assert SessionReader.open(path).warnings == ()
    assert list_recoverable(state) == []
    assert read(kept) == expected


def test_running_recorder_cannot_be_recovered_or_discarded(recorder: Recorder, tmp_path: Path) -> None:
    put(recorder, HEADER)
    assert list_recoverable(tmp_path / "state") == []
    with pytest.raises(SpecmonError, match="cannot be recovered"):
        recover(spool_of(recorder), tmp_path / "a.session")
    with pytest.raises(SpecmonError, match="cannot be deleted"):
        discard(spool_of(recorder))
    assert not (tmp_path / "a.session").exists()


def left_behind(state: Path, content: bytes) -> Path:
    path, fd = create_spool(state)
    os.write(fd, content)
    os.close(fd)
    return path


def test_torn_spool_is_recovered_up_to_the_tear(
    tmp_path: Path, write: Callable[..., Path], events: list[Event]
) -> None:
    data = write(events, frame_events=4, closed=False).read_bytes()
    path = recover(left_behind(tmp_path / "state", data[:-5]), tmp_path / "saved.session")
    assert len(read(path)) == len(events) - len(events) % 4 - 1
    assert SessionReader.open(path).warnings == ()


def test_failed_recovery_keeps_the_spool(
    tmp_path: Path, write: Callable[..., Path], events: list[Event]
) -> None:
    taken = write(events)
    spool = left_behind(tmp_path / "state", taken.read_bytes())
    with pytest.raises(UsageError, match="exists"):
        recover(spool, taken)
    assert spool.exists()
    discard(spool)
    assert not spool.exists()


@pytest.mark.parametrize("content", [b"", b"junk" * 30])
def test_spool_without_events_is_not_recovered(tmp_path: Path, content: bytes) -> None:
    spool = left_behind(tmp_path / "state", content)
    with pytest.raises(SpecmonError, match="no events"):
        recover(spool, tmp_path / "a.session")


def test_two_recorders_share_a_folder(tmp_path: Path) -> None:
    first, second = Recorder(tmp_path), Recorder(tmp_path)
    put(first, HEADER, mark(1))
    put(second, HEADER, mark(2))
    assert read(spool_of(first)) == [HEADER, mark(1)]
    assert read(spool_of(second)) == [HEADER, mark(2)]
    first.close()
    assert read(spool_of(second)) == [HEADER, mark(2)]
    second.close()
