"""The whole engine with the embedded pair on two cores: one turn of each kind of ending."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from specmon.core.engine.messages import Cancel, Generate, Idle, LaneConfig, Load, Record, Refused, Request
from specmon.core.events import Event, Header, Round, TurnEnd
from specmon.core.session.reader import SessionReader

pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.embedded


def ask(max_new_tokens: int) -> Generate:
    message = ("user", "Write a Python function that merges two sorted lists.")
    return Generate(request=Request(messages=(message,), max_new_tokens=max_new_tokens))


def answered(of: str):
    return lambda items: any(isinstance(item, Idle | Refused) and item.of == of for item in items)


def workers_of(pid: int) -> list[int]:
    """Pids of the processes that an engine started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_ssd_turns_reach_the_view_and_the_recording_alike_and_a_kill_ends_everything(start, drain, tmp_path):
    path: Path = tmp_path / "a.session"
    client = start(view_queue=4)
    client.send(Load(config=LaneConfig(decoder="ssd")))
    client.send(Record(path=str(path)))
    client.send(ask(24))
    items = drain(client, answered("Generate"), max_items=1)
    end = next(item for item in items if isinstance(item, TurnEnd))
    assert (end.stop_reason, end.n_tokens) == ("length", 24)
    header = next(item for item in items if isinstance(item, Header))
    assert all(device.read_ceiling for device in header.devices)

    client.send(ask(4000))
    items += drain(client, lambda new: any(isinstance(item, Round) for item in new))
    client.send(Cancel())
    items += drain(client, answered("Generate"))
    assert [item.stop_reason for item in items if isinstance(item, TurnEnd)] == ["length", "cancelled"]

    client.send(ask(4000))
    size = path.stat().st_size
    items += drain(client, lambda new: path.stat().st_size > size)
    workers = [os.pidfd_open(pid) for pid in workers_of(client.pid)]
    assert workers
    os.kill(client.pid, signal.SIGKILL)
    items += drain(client)
    assert "ended by SIGKILL" in client.death().reason
    with SessionReader.open(path) as reader:
        recorded = list(reader.events())
    assert recorded == [item for item in items if isinstance(item, Event)][: len(recorded)]
    assert isinstance(recorded[-1], Event)
    for worker in workers:
        assert ended(worker), "a worker outlived its engine"


def ended(pidfd: int, timeout_s: float = 20.0) -> bool:
    try:
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)
