"""Reading a `.session`: everything that is intact, and a sentence for everything that is not."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import SCHEMA, Event, Gap, Header
from specmon.core.session.codec import Unknown, is_newer_minor
from specmon.core.session.frames import DamagedFrame, parse_mark
from specmon.core.session.header import not_a_session, parse_header, plain_name
from specmon.core.session.index import FrameIndex
from specmon.core.session.lines import FrameReport, damage_gap, read_lines
from specmon.core.session.outline import Outlined, read_outline
from specmon.core.session.skim import Skim, skim
from specmon.core.session.target import reason_of


class SessionReader:
    """An open recording. `frames` is its index, `header` its first event; `warnings` grow as it is read.

    Events of damaged frames are replaced by one `Gap`; kinds that this version does not know come as
    `Unknown`.
    """

    def __init__(self, path: Path, fd: int, index: FrameIndex, header: Header) -> None:
        self.path = path
        self.header = header
        self.frames = index.frames
        self._index = index
        self._fd = fd
        self._reports: dict[int, FrameReport] = {}
        self._outline: list[Outlined | None] = []
        if index.end is not None and not index.damage and not is_newer_minor(header.schema):
            self._outline = [*(read_outline(fd, index.end.end, index.frames) or ())]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a recording.

        Raises: UsageError where there is none at `path`; SpecmonError where it is of a newer major, or
        damaged or cut within its first events.
        """
        path = Path(path)
        fd = _open(path)
        try:
            _check_start(path, os.pread(fd, 12, 0))
            index = FrameIndex.build(fd)
            return cls(path, fd, index, _read_header(path, fd, index))
        except OSError as error:
            os.close(fd)
            raise SpecmonError(f"{path} cannot be read: {reason_of(error)}.") from None
        except BaseException:
            os.close(fd)
            raise

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the user: what is missing or not understood, as far as it was read."""
        return tuple(self._warnings())

    def events(self) -> Iterator[Event]:
        """Yield all events in order."""
        return self.events_from(0)

    def events_from(self, frame_index: int) -> Iterator[Event]:
        """Yield the events of frame `frame_index` and those after it."""
        for number in range(frame_index, len(self.frames)):
            if (gap := self.gap_before(number)) is not None:
                yield gap
            yield from self.frame_events(number)

    @property
    def n_events(self) -> int:
        """Events of the file, lost ones included."""
        last = self.frames[-1]
        return last.first_event + last.events

    def skim(self, number: int, *, misses: bool = True) -> Skim:
        """Find the rounds of frame `number` (see `skim`) without reading them whole; a damaged frame has none."""
        info = self.frames[number]
        report = self._reports.setdefault(number, FrameReport())
        if is_newer_minor(self.header.schema):
            deque(self.frame_events(number), maxlen=0)  # for the count of what is unknown here
            report = self._reports[number]
        try:
            skimmed = self._outlined(number) or skim(self._index.raw(self._fd, info), misses=misses)
        except DamagedFrame:
            report.damaged = True
            return Skim(n_lines=info.events)
        except OSError as error:
            raise SpecmonError(f"{self.path} cannot be read: {reason_of(error)}.") from None
        report.bad_lines = max(report.bad_lines, skimmed.bad_lines)
        report.unknown_kinds = Counter(e.kind for _, e in skimmed.others if isinstance(e, Unknown))
        return skimmed

    def _outlined(self, number: int) -> Skim | None:
        """What the outline says of a frame, which is asked for once; None where there is none."""
        row = self._outline[number] if self._outline else None
        if row is None:
            return None
        self._outline[number] = None
        try:
            return row.skim()
        except ValueError:
            return None

    def close(self) -> None:
        """Close the file; events cannot be read any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def gap_before(self, number: int) -> Gap | None:
        """Stand in for frames before frame `number` that are missing because a mark is damaged."""
        info = self.frames[number]
        expected = 0
        if number:
            previous = self.frames[number - 1]
            expected = previous.first_event + previous.events
        return damage_gap(info.t, info.first_event - expected) if info.first_event > expected else None

    def frame_events(self, number: int) -> Iterator[Event]:
        """Yield the events of frame `number`; of a damaged one a `Gap`."""
        info = self.frames[number]
        report = self._reports[number] = FrameReport()
        try:
            lines = self._index.lines(self._fd, info)
        except DamagedFrame:
            report.damaged = True
            yield damage_gap(info.t, info.events)
            return
        except OSError as error:
            raise SpecmonError(f"{self.path} cannot be read: {reason_of(error)}.") from None
        yield from read_lines(lines, self.header.schema, report)

    def _warnings(self) -> Iterator[str]:
        reports = self._reports.values()
        if self._index.torn:
            yield "The recording is cut off at its end: its last events are lost."
        elif self._index.end is None:
            yield "The recording was not closed: it still runs, or its last quarter of a second is lost."
        damaged = sum(report.damaged for report in reports) + len(self._index.damage)
        if damaged:
            yield f"{_count(damaged, 'place')} in the file {_is(damaged)} damaged and left out."
        if bad := sum(report.bad_lines for report in reports):
            yield f"{_count(bad, 'line')} could not be understood and {_is(bad)} left out."
        kinds: Counter[str] = sum((report.unknown_kinds for report in reports), Counter())
        if kinds:
            names = ", ".join(f"{plain_name(kind)} ({n})" for kind, n in kinds.most_common(5))
            yield (
                f"{_count(kinds.total(), 'event')} of kinds unknown here kept: {names} "
                f"(file {self.header.schema}, reader {SCHEMA})."
            )
        if fields := sum(report.unknown_fields for report in reports):
            yield f"{_count(fields, 'field')} unknown here kept (file {self.header.schema}, reader {SCHEMA})."


def _open(path: Path) -> int:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder.", "Name a .session file in it.")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}.") from None
    return fd


def _check_start(path: Path, start: bytes) -> None:
    if not start:
        raise UsageError(f"{path} is empty.")
    try:
        parse_mark(start, 0)
    except DamagedFrame:
        raise not_a_session(str(path)) from None


def _read_header(path: Path, fd: int, index: FrameIndex) -> Header:
    if not index.frames or index.frames[0].offset > 0:
        state = "damaged" if index.damage else "cut off"
        raise SpecmonError(f"{path} is {state} within its first events: nothing can be read from it.")
    try:
        lines = index.lines(fd, index.frames[0])
    except DamagedFrame as damage:
        raise SpecmonError(f"{path} is damaged at its start: {damage}.") from None
    return parse_header(str(path), lines[0] if lines else b"")


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def _is(n: int) -> str:
    return "is" if n == 1 else "are"
