"""Reads back from the spool what the view was too slow to take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from specmon.core.errors import SpecmonError
from specmon.core.events import Event, Gap
from specmon.core.session.frames import FrameInfo
from specmon.core.session.reader import SessionReader


def refill(
    spool: Path | None, start: int, stop: int | None, *, whole: bool = True
) -> Iterator[tuple[int, Event]]:
    """Yield the stream's events from position `start` up to `stop` (None: to the spool's end).

    A position counts events since the `Header` (0). A spooled `Gap` stands for the events the spool had to
    leave out; if the spool ends before `stop`, one more `Gap` stands for the rest.

    Args:
        whole: the spool left nothing out before `start`; reading can then begin in its middle.

    Yields: the position after each event, and the event.
    """
    position = start
    t = 0
    reason = "they are missing from the spool"
    try:
        for position, event in _spooled(spool, start, whole):
            yield position, event
            t = event.t
            if stop is not None and position >= stop:
                return
    except SpecmonError as error:
        reason = str(error)
    if stop is not None and position < stop:
        yield (
            stop,
            Gap(t=t, count=stop - position, reason=f"The view was too slow for these events: {reason}"),
        )


def _spooled(spool: Path | None, start: int, whole: bool) -> Iterator[tuple[int, Event]]:
    """Every event of the spool that ends after position `start`, with the position after it."""
    if spool is None:
        return
    with SessionReader.open(spool) as reader:
        frame = max(0, bisect_right(reader.frames, start, key=_first_event) - 1) if whole else 0
        position = reader.frames[frame].first_event
        for event in reader.events_from(frame):
            position += event.count if isinstance(event, Gap) else 1
            if position > start:
                yield position, event


def _first_event(frame: FrameInfo) -> int:
    return frame.first_event
