"""Engines to test against: small programs that speak frames, and the real engine around a scripted lane."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import Notice
from specmon.core.errors import SpecmonError
from specmon.core.events import Event
from specmon.core.session.reader import SessionReader

PATIENCE_S = 90.0

_FRAMES_ONLY = """
import os, signal, socket, sys
from specmon.core.engine import channel, messages
from specmon.core import events
sock = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
sock.set_inheritable(False)
def say(notice): sock.sendall(channel.frame_notice(notice))
def emit(event): sock.sendall(channel.frame_event(event))
def log(i): return events.Log(t=i, level="info", text=str(i))
"""

Start = Callable[..., EngineClient]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clients whose state is in `tmp_path`; they are closed after the test."""
    clients: list[EngineClient] = []

    def start(**options: Any) -> EngineClient:
        clients.append(EngineClient.start(state_dir=tmp_path / "state", **options))
        return clients[-1]

    yield start
    for client in clients:
        client.close(timeout_s=0.1)


@pytest.fixture
def stand_in(start: Start, tmp_path: Path) -> Start:
    """Start a client whose engine is just the given statements."""

    def stand_in(body: str) -> EngineClient:
        program = tmp_path / "stand_in.py"
        program.write_text(_FRAMES_ONLY + textwrap.dedent(body))
        return start(program=[str(program)])

    return stand_in


@pytest.fixture
def scripted(start: Start) -> Start:
    """Start the real engine with lanes that decode by script (see scripted_engine.py) and load no torch."""
    program = Path(__file__).with_name("scripted_engine.py")

    def scripted(**options: Any) -> EngineClient:
        return start(program=[str(program)], **options)

    return scripted


Drain = Callable[..., list[Event | Notice]]


@pytest.fixture
def drain() -> Drain:
    """Collect what a client gives until `until(items)` holds or the engine is gone."""

    def drain(
        client: EngineClient,
        until: Callable[[list[Event | Notice]], bool] = lambda items: False,
        max_items: int = 4096,
    ) -> list[Event | Notice]:
        items: list[Event | Notice] = []
        deadline = time.monotonic() + PATIENCE_S
        while client.alive and not until(items):
            assert time.monotonic() < deadline, f"nothing that ends the wait came: {items[-5:]}"
            items += client.wait(1.0, max_items)
        return items

    return drain


@pytest.fixture
def spooled() -> Callable[[Path, type[Event]], list[Event]]:
    """Wait until a spool ends with an event of a kind; gives all its events."""

    def spooled(spool: Path, last: type[Event]) -> list[Event]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(SpecmonError), SessionReader.open(spool) as reader:  # empty at first
                if isinstance([*reader.events_from(len(reader.frames) - 1)][-1], last):
                    return list(reader.events())
            os.sched_yield()
        raise AssertionError(f"no {last.__name__} was spooled")

    return spooled
