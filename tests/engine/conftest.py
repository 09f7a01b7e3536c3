"""Clients of stand-in engines: small programs that speak frames over the descriptor they are given."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import Notice
from specmon.core.events import Event

PATIENCE_S = 20.0

_PRELUDE = """
import os, signal, socket, sys
from specmon.core.engine import channel, messages
from specmon.core import events
sock = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
sock.set_inheritable(False)
def say(notice): sock.sendall(channel.frame_notice(notice))
def emit(event): sock.sendall(channel.frame_event(event))
def log(i): return events.Log(t=i, level="info", text=str(i))
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[Callable[..., EngineClient]]:
    """Start a client whose engine runs the given statements."""
    clients: list[EngineClient] = []

    def start(body: str, **kwargs: object) -> EngineClient:
        program = tmp_path / f"engine_{len(clients)}.py"
        program.write_text(_PRELUDE + textwrap.dedent(body))
        client = EngineClient.start(state_dir=tmp_path / "state", program=[str(program)], **kwargs)  # type: ignore[arg-type]
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close(timeout_s=0.1)


@pytest.fixture
def drain() -> Callable[..., list[Event | Notice]]:
    """Collect what a client gives until a condition on it holds or the engine is gone."""

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
