"""What waits while a view is frozen: all of it comes, in order, and memory holds only the newest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from specmon.core.engine.messages import Hello
from specmon.core.events import AnyEvent, Event, Gap, Header, Log
from specmon.core.metrics.ledger import Ledger
from specmon.tui.feeds import backlog as module
from specmon.tui.feeds import pump as pump_module
from specmon.tui.feeds.backlog import Backlog
from specmon.tui.feeds.pump import Pump

from .conftest import turn_events
from .test_pump import ListFeed

Write = Callable[..., Path]
LOGS: list[AnyEvent] = [Header(t=0), *(Log(t=i * 10**9, level="info", text=str(i)) for i in range(1, 200))]


def put(backlog: Backlog, events: Sequence[AnyEvent], first: int = 0) -> None:
    for position, event in enumerate(events, first + 1):
        backlog.put(event, position)


def everything(backlog: Backlog) -> list[Event]:
    return list(iter(backlog.take, None))


@pytest.fixture
def few_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_EVENTS", 8)


@pytest.mark.usefixtures("few_held")
def test_events_beyond_those_held_come_back_from_the_spool(write: Write) -> None:
    backlog = Backlog()
    backlog.spool = write("spool", LOGS, closed=False)
    put(backlog, LOGS[20:], first=20)
    assert len(backlog._held) == 8
    assert everything(backlog) == LOGS[20:]
    assert not backlog


@pytest.mark.usefixtures("few_held")
def test_events_that_come_while_others_are_taken_follow_them(write: Write) -> None:
    backlog = Backlog()
    backlog.spool = write("spool", LOGS, closed=False)
    put(backlog, LOGS[:100])
    taken = [backlog.take() for _ in range(50)]
    put(backlog, LOGS[100:], first=100)
    assert taken + everything(backlog) == LOGS


@pytest.mark.usefixtures("few_held")
def test_without_a_spool_and_within_its_delay_all_are_held(write: Write) -> None:
    unspooled, fresh = Backlog(), Backlog()
    put(unspooled, LOGS)
    fresh.spool = write("spool", LOGS[:1], closed=False)
    at_once: list[AnyEvent] = [Log(t=i, level="info", text=str(i)) for i in range(100)]
    put(fresh, at_once)
    assert everything(unspooled) == LOGS
    assert everything(fresh) == at_once


@pytest.mark.usefixtures("few_held")
def test_what_the_spool_lacks_is_a_gap(write: Write) -> None:
    backlog = Backlog()
    backlog.spool = write("spool", LOGS[:50], closed=False)
    put(backlog, LOGS)
    got = everything(backlog)
    assert got[:50] == LOGS[:50]
    assert [event.count for event in got if isinstance(event, Gap)] == [len(LOGS) - 50 - 8]
    assert got[-8:] == LOGS[-8:]


@pytest.mark.usefixtures("few_held")
def test_a_long_frozen_pump_shows_everything_once_thawed(
    two_turns: list[AnyEvent], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump_module, "CATCH_UP_S", 0.0)
    spool = write("spool", two_turns, closed=False)
    feed = ListFeed([Hello(pid=1, spool=str(spool), log=""), *two_turns[:6]])
    pump, straight = Pump(feed), Ledger()
    for event in two_turns:
        straight.feed(event)
    pump.poll()
    pump.freeze()
    feed.items = [*two_turns[6:]]
    pump.poll()
    pump.thaw()
    polls = 0
    while pump.catching_up:
        pump.poll()
        polls += 1
    assert polls > 5  # a slice each
    assert pump.behind == (0, 0.0)
    for mine, theirs in zip(pump.ledger.lanes[0].turns, straight.lanes[0].turns, strict=True):
        assert mine.rounds == theirs.rounds
        assert mine.text == theirs.text
    assert pump.lost == 0


def test_a_new_engine_has_a_stream_of_its_own(two_turns: list[AnyEvent]) -> None:
    feed = ListFeed([*two_turns[:8]])
    pump = Pump(feed)
    pump.freeze()
    pump.poll()
    pump.restarted()
    assert not pump.catching_up
    feed.items = [*two_turns[:2], *turn_events(0, 3)]
    pump.poll()
    assert pump.ledger.lanes[0].turns[0].n_rounds == 3
