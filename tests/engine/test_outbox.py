"""The outbox never waits for a slow view, keeps the order and counts exactly what it leaves out."""

from __future__ import annotations

import socket
import threading

import pytest

from specmon.core.engine.channel import FrameParser, receive
from specmon.core.engine.messages import Dropped, Idle
from specmon.core.engine.outbox import Outbox
from specmon.core.events import Gap, Log

CAPACITY = 8


def log(i: int) -> Log:
    return Log(t=i, level="info", text="")


@pytest.fixture
def pair():
    view, engine = socket.socketpair()
    with view, engine:
        yield view, engine


def all_sent(view: socket.socket, outbox: Outbox, engine: socket.socket) -> list[object]:
    """Let the outbox send all it holds, hang up, and give what the view received."""
    parser = FrameParser()
    outbox.start()
    closing = threading.Thread(target=lambda: (outbox.close(10.0), engine.shutdown(socket.SHUT_RDWR)))
    closing.start()
    while receive(view, parser) is not None:
        pass
    closing.join()
    return list(iter(parser.next, None))


def test_what_fits_is_sent_in_order(pair):
    view, engine = pair
    outbox = Outbox(engine, settle=lambda: True, capacity=CAPACITY)
    for i in range(CAPACITY):
        outbox.put_event(log(i))
    outbox.put_notice(Idle(of="Generate"))
    assert all_sent(view, outbox, engine) == [*map(log, range(CAPACITY)), Idle(of="Generate")]


def test_overflow_is_counted_where_it_happened_and_notices_keep_their_place(pair):
    view, engine = pair
    outbox = Outbox(engine, settle=lambda: False, capacity=CAPACITY)
    for i in range(CAPACITY + 5):
        outbox.put_event(log(i))
    outbox.put_notice(Idle(of="Generate"))
    outbox.put_event(log(99))
    assert all_sent(view, outbox, engine) == [
        *map(log, range(CAPACITY)),
        Dropped(count=5, whole=False),
        Idle(of="Generate"),
        Dropped(count=1, whole=False),
    ]


def test_spool_is_settled_before_a_drop_is_announced(pair):
    view, engine = pair
    received: list[int] = []
    parser = FrameParser()

    def settle() -> bool:
        received.append(len(parser_messages()))
        return True

    def parser_messages() -> list[object]:
        view.setblocking(False)
        while receive(view, parser):
            pass
        view.setblocking(True)
        return list(iter(parser.next, None))

    outbox = Outbox(engine, settle=settle, capacity=0)
    outbox.put_event(log(0))
    assert all_sent(view, outbox, engine) == [Dropped(count=1)]
    assert received == [0]


def test_an_event_that_cannot_be_encoded_becomes_a_gap(pair):
    view, engine = pair
    outbox = Outbox(engine, settle=lambda: True, capacity=CAPACITY)
    outbox.put_event(Log(t=5, level="info", text=object()))  # type: ignore[arg-type]
    outbox.put_event(log(6))
    gap, after = all_sent(view, outbox, engine)
    assert isinstance(gap, Gap)
    assert (gap.t, gap.count) == (5, 1)
    assert after == log(6)


def test_a_view_that_is_gone_stops_nothing(pair):
    view, engine = pair
    view.close()
    outbox = Outbox(engine, settle=lambda: True, capacity=CAPACITY)
    outbox.start()
    for i in range(1000):
        outbox.put_event(log(i))
    outbox.close(10.0)
    assert not outbox._thread.is_alive()
