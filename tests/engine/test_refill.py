"""Refilling from a spool: exactly the events asked for, or a gap that says how many are missing."""

from __future__ import annotations

import pytest

from specmon.core.engine.refill import refill
from specmon.core.events import Gap, Header, Log
from specmon.core.session.writer import SessionWriter

EVENTS = [Header(t=0), *(Log(t=i, level="info", text=str(i)) for i in range(1, 350))]


@pytest.fixture
def spool(tmp_path):
    path = tmp_path / "1-0.spool"
    writer = SessionWriter(path)
    for event in EVENTS:
        writer.write(event)
    writer.flush()
    return path


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 350), (0, 1), (99, 100), (100, 101), (150, 333), (349, 350), (5, None)]
)
def test_refill_gives_exactly_the_range(spool, start, stop, whole):
    got = list(refill(spool, start, stop, whole=whole))
    assert [event for _, event in got] == EVENTS[start:stop]
    assert [position for position, _ in got] == list(range(start + 1, (stop or 350) + 1))


def test_a_spool_that_ends_early_leaves_a_gap(spool):
    *events, (position, gap) = refill(spool, 340, 360)
    assert len(events) == 10
    assert isinstance(gap, Gap)
    assert (position, gap.count, gap.t) == (360, 10, 349)


def test_a_gap_in_the_spool_counts_for_what_it_replaces(tmp_path):
    path = tmp_path / "1-0.spool"
    with SessionWriter(path) as writer:
        for event in [*EVENTS[:10], Gap(t=9, count=20, reason="disk full"), *EVENTS[30:40]]:
            writer.write(event)
    got = list(refill(path, 15, 35, whole=False))
    assert got[0] == (30, Gap(t=9, count=20, reason="disk full"))
    assert [event for _, event in got[1:]] == EVENTS[30:35]


@pytest.mark.parametrize("content", [None, b"", b"not a session at all"])
def test_no_spool_is_a_gap_and_never_an_exception(tmp_path, content):
    path = tmp_path / "1-0.spool"
    if content is not None:
        path.write_bytes(content)
    [(position, gap)] = refill(path, 3, 8)
    assert isinstance(gap, Gap)
    assert (position, gap.count) == (8, 5)
    assert list(refill(path, 3, None)) == []
    assert [gap.count for _, gap in refill(None, 3, 8)] == [5]
