"""Any stretch of a recording's events, by their numbers; frames read lately are kept."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from specmon.core.events import Event
from specmon.core.session.reader import SessionReader

KEPT_EVENTS = 20_000


class EventRanges:
    """Reads events by number: the first of the file is 0. A damaged frame is one `Gap` in their stead."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._firsts = [frame.first_event for frame in reader.frames]
        self._kept: OrderedDict[int, _Frame] = OrderedDict()
        self._kept_events = 0

    def events(self, first: int, end: int) -> Iterator[Event]:
        """Yield events `first` to `end` (not included). Raises SpecmonError where the file cannot be read."""
        number = max(bisect_right(self._firsts, first) - 1, 0)
        while number < len(self._firsts) and self._firsts[number] < end:
            start = self._firsts[number]
            if first <= start and (gap := self._reader.gap_before(number)) is not None:
                yield gap
            yield from self._frame(number).events(max(first - start, 0), end - start)
            number += 1

    def _frame(self, number: int) -> _Frame:
        frame = self._kept.get(number)
        if frame is None:
            frame = self._kept[number] = _Frame(self._reader.frame_events(number))
            self._kept_events += self._reader.frames[number].events
            while self._kept_events > KEPT_EVENTS and len(self._kept) > 1:
                dropped, _ = self._kept.popitem(last=False)
                self._kept_events -= self._reader.frames[dropped].events
        else:
            self._kept.move_to_end(number)
        return frame


class _Frame:
    """A frame's events, read as far as they were asked for."""

    def __init__(self, source: Iterator[Event]) -> None:
        self._source = source
        self._read: list[Event] = []

    def events(self, first: int, end: int) -> list[Event]:
        """Give events `first` to `end` (not included) of the frame."""
        if end > len(self._read):
            self._read.extend(islice(self._source, end - len(self._read)))
        return self._read[first:end]
