"""The thread that reads the engine's socket for the view."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from specmon.core.engine.inlet import Inlet

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_inlet_gives_bytes_in_order_and_then_the_end(pair: Pair) -> None:
    ours, theirs = pair
    inlet = Inlet(ours)
    assert inlet.take() == b""
    theirs.sendall(b"one")
    assert inlet.wait(5.0)
    taken = inlet.take() or b""
    theirs.sendall(b"two")
    theirs.shutdown(socket.SHUT_WR)
    while (more := inlet.take()) is not None:
        taken += more
        inlet.wait(5.0)
    assert taken == b"onetwo"
    assert inlet.take() is None
    inlet.close()


def test_inlet_takes_more_than_a_socket_holds_while_nobody_looks(pair: Pair) -> None:
    ours, theirs = pair
    inlet = Inlet(ours)
    sent = bytes(range(256)) * (8 << 12)
    theirs.settimeout(10.0)
    theirs.sendall(sent)
    theirs.close()
    taken = bytearray()
    while (more := inlet.take()) is not None:
        taken += more
        inlet.wait(5.0)
    assert taken == sent


def test_a_full_inlet_leaves_the_rest_in_the_socket(pair: Pair) -> None:
    ours, theirs = pair
    inlet = Inlet(ours, capacity=1000)
    theirs.setblocking(False)
    sent = 0
    while (more := _sent(theirs)) and sent < 1 << 24:
        sent += more
        inlet.wait(1.0)
    assert sent < 1 << 24
    theirs.close()
    taken = 0
    while (more := inlet.take()) is not None:
        taken += len(more)
        inlet.wait(5.0)
    assert taken == sent


def test_close_ends_the_thread(pair: Pair) -> None:
    inlet = Inlet(pair[0])
    inlet.close()
    assert not inlet._thread.is_alive()
    assert inlet.take() is None


def _sent(sock: socket.socket) -> int:
    try:
        return sock.send(b"x" * 4096)
    except BlockingIOError:
        return 0
