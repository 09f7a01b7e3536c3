"""Reads back from the spool what the view was too slow to take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specmon.core.errors import SpecmonError
from specmon.core.events import Event, Gap


def refill(spool: Path | None, start: int, stop: int | None) -> Iterator[tuple[int, Event]]:
    """Yield the stream's events from position `start` up to `stop` (None: to the spool's end).

    A position counts events since the `Header` (0). A spooled `Gap` stands for the events the spool had to
    leave out; if the spool ends before `stop`, one more `Gap` stands for the rest.

    Yields: the position after each event, and the event.
    """
    position = start
    t = 0
    try:
        for position, event in _spooled(spool, start):
            yield position, event
            t = event.t
            if stop is not None and position >= stop:
                return
        reason = "they are missing from the spool"
    except SpecmonError as error:
        reason = error.message
    if stop is not None and position < stop:
        yield (
            stop,
            Gap(t=t, count=stop - position, reason=f"The view was too slow for these events and {reason}"),
        )


def _spooled(spool: Path | None, start: int) -> Iterator[tuple[int, Event]]:
    """Every event of the spool that ends after position `start`, with the position after it."""
    if spool is None:
        raise SpecmonError("there is no spool")
    from specmon.core.session.reader import SessionReader

    reader = SessionReader.open(spool)
    position = 0
    for event in reader.events():
        position += event.count if isinstance(event, Gap) else 1
        if position > start:
            yield position, event
