"""The real engine process around scripted lanes: order, refill, errors, cancel, recording, death."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from specmon.core.engine.messages import (
    ArMeasured,
    Cancel,
    Dropped,
    Generate,
    Hello,
    Idle,
    LaneConfig,
    Load,
    Mark,
    MeasureAr,
    Progress,
    Race,
    Ready,
    Record,
    Recording,
    Refused,
    Request,
)
from specmon.core.events import ArStep, Event, Header, Lane, Marker, Prefill, Round, Turn, TurnEnd
from specmon.core.session.reader import SessionReader
from specmon.core.session.recover import list_recoverable

SCRIPTED = Path(__file__).with_name("scripted_engine.py")


def ask(what: str, lane: int = 0) -> Generate:
    return Generate(lane=lane, request=Request(messages=(("user", what),)))


def answered(of: str, times: int = 1):
    """Whether that many commands of a kind have been answered."""
    return lambda items: sum(isinstance(i, Idle | Refused) and i.of == of for i in items) >= times


def seen(kind: type, times: int = 1):
    return lambda items: sum(isinstance(item, kind) for item in items) >= times


def of_kind(kind: type, items: list) -> list:
    return [item for item in items if isinstance(item, kind)]


@pytest.fixture
def loaded(scripted, drain):
    """Start an engine with lane 0 ready; what it said is the second value."""

    def loaded(**options: object):
        client = scripted(**options)
        client.send(Load(config=LaneConfig(devices="cpu:0")))
        return client, drain(client, answered("Load"))

    return loaded


def test_load_says_hello_then_progress_then_header_lane_ready_idle(loaded):
    _, items = loaded()
    kinds = [type(item) for item in items]
    assert kinds[0] is Hello
    assert kinds[1] is Progress
    assert [kind for kind in kinds if kind is not Progress] == [Hello, Header, Lane, Ready, Idle]
    header = of_kind(Header, items)[0]
    assert header.t == 0
    assert header.devices[0].read_ceiling == 1e10
    assert header.hashes == {"target": "0123456789abcdef"}
    assert of_kind(Ready, items)[0].notes == ("Target and draft share cpu:0.", "scripted")


def test_ar_shares_its_device_with_nobody(loaded, drain):
    client, _ = loaded()
    client.send(Load(config=LaneConfig(decoder="ar", devices="cpu:0")))
    assert of_kind(Ready, drain(client, answered("Load")))[0].notes == ("scripted",)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no threads")
@pytest.mark.parametrize("pin", [True, False])
def test_only_the_decode_thread_is_pinned(loaded, pin):
    client, _ = loaded(pin=pin)
    threads = [int(thread) for thread in os.listdir(f"/proc/{client.pid}/task")]
    everywhere = os.sched_getaffinity(0)
    for thread in threads:
        pinned = pin and thread == client.pid
        assert os.sched_getaffinity(thread) == ({min(everywhere)} if pinned else everywhere)


def test_idle_comes_after_every_event_of_its_turn(loaded, drain):
    client, _ = loaded()
    client.send(ask("rounds 300"))
    items = drain(client, answered("Generate"))
    assert [type(i) for i in items[:2]] == [Turn, Prefill]
    assert [i.index for i in items[2:-2]] == list(range(300))
    assert isinstance(items[-2], TurnEnd)
    assert items[-1] == Idle(of="Generate")


def test_a_view_that_does_not_read_loses_no_event(loaded, drain, spooled):
    client, before = loaded(view_queue=64)
    client.send(ask("rounds 8000"))
    recorded = spooled(Path(before[0].spool), TurnEnd)  # the turn is over, and nothing has been read yet
    items = drain(client, answered("Generate"), max_items=100)
    assert of_kind(Dropped, items)
    assert of_kind(Event, before + items) == recorded
    assert [event.index for event in of_kind(Round, items)] == list(range(8000))
    assert isinstance(items[-2], TurnEnd)
    assert items[-1] == Idle(of="Generate")


def test_turns_count_up_over_lanes(loaded, drain):
    client, _ = loaded()
    client.send(Load(lane=1, config=LaneConfig(decoder="ar", devices="cpu:0")))
    client.send(ask("rounds 1"))
    client.send(ask("rounds 1", lane=1))
    items = drain(client, answered("Generate", 2))
    assert [(e.lane, e.turn) for e in of_kind(Turn, items)] == [(0, 0), (1, 1)]
    assert not of_kind(Header, items)


def test_race_runs_every_lane_in_one_turn(loaded, drain):
    client, _ = loaded()
    client.send(Load(lane=1, config=LaneConfig(decoder="ar", devices="cpu:0")))
    client.send(Race(request=Request(messages=(("user", "rounds 2"),))))
    items = drain(client, answered("Race"))
    assert [(e.lane, e.turn) for e in of_kind(TurnEnd, items)] == [(0, 0), (1, 0)]


def test_cancel_stops_the_running_request(loaded, drain):
    client, _ = loaded()
    client.send(ask("forever"))
    drain(client, seen(Round, 3))
    client.send(Cancel())
    items = drain(client, answered("Generate"))
    assert of_kind(TurnEnd, items)[0].stop_reason == "cancelled"


def test_cancel_reaches_a_request_that_has_not_begun_and_none_after_it(loaded, drain):
    client, _ = loaded()
    client.send(ask("forever"))
    client.send(Cancel())
    client.send(ask("rounds 2"))
    ends = of_kind(TurnEnd, drain(client, answered("Generate", 2)))
    assert [end.stop_reason for end in ends] == ["cancelled", "length"]


def test_failure_inside_a_turn_ends_it_with_true_totals_and_the_engine_goes_on(loaded, drain):
    client, _ = loaded()
    client.send(ask("fail 5"))
    items = drain(client, answered("Generate"))
    end = of_kind(TurnEnd, items)[0]
    assert (end.stop_reason, end.n_tokens, end.rounds) == ("error", 11, 5)
    refused = items[-1]
    assert "KeyError" in refused.message
    assert "\n" not in refused.message
    assert str(client.log_path) in refused.hint
    assert "Traceback" in client.log_path.read_text()
    client.send(ask("rounds 1"))
    assert of_kind(TurnEnd, drain(client, answered("Generate")))[0].stop_reason == "length"


def test_memory_running_out_is_said_plainly(loaded, drain):
    client, _ = loaded()
    client.send(ask("memory 1"))
    assert drain(client, answered("Generate"))[-1].message == "Memory ran out."


def test_user_error_is_refused_with_its_exit_code_and_no_traceback(loaded, drain):
    client, _ = loaded()
    client.send(ask("refuse"))
    refused = drain(client, answered("Generate"))[-1]
    assert refused == Refused(of="Generate", message="The prompt is longer than the context.", exit_code=2)
    assert "Traceback" not in client.log_path.read_text()
    client.send(ask("rounds 1"))
    assert of_kind(Turn, drain(client, answered("Generate")))[0].turn == 0


def test_a_load_frees_the_lane_it_replaces_and_leaves_the_rest_out_of_collections(loaded, drain):
    client, _ = loaded()
    client.send(Load(config=LaneConfig(decoder="ar", devices="cpu:0")))
    drain(client, answered("Load"))

    client.send(ask("garbage"))
    lanes, objects = drain(client, answered("Generate"))[-1].message.split(" alive, ")
    assert lanes == "1"
    assert int(objects.partition(" ")[0]) > 10_000


REFUSED = [
    (ask("rounds 1", lane=3), "Lane 3 is not loaded."),
    (Race(request=Request(messages=(("user", "x"),))), "No lane is loaded."),
    (MeasureAr(steps=0), "0 steps cannot be timed."),
    (Mark(label="here"), "There is nothing to mark yet."),
    (Load(config=LaneConfig(target="missing", devices="cpu:0")), "There is no model at missing."),
    (Load(config=LaneConfig(devices="cuda:99")), "There is no device 'cuda:99' on this machine."),
    (Record(path="/proc/nowhere/a.session"), "/proc/nowhere"),
]


def test_what_cannot_be_done_is_refused_in_a_sentence(scripted, drain):
    client = scripted()
    for command, said in REFUSED:
        client.send(command)
        refused = of_kind(Refused, drain(client, seen(Refused)))[0]
        assert refused.of == type(command).__name__
        assert said in refused.message
        assert "\n" not in refused.message
    assert "Traceback" not in client.log_path.read_text()


def test_a_failed_load_leaves_the_lane_as_it_was(loaded, drain):
    client, _ = loaded()
    client.send(Load(config=LaneConfig(target="missing", devices="cpu:0")))
    client.send(ask("rounds 1"))
    items = drain(client, answered("Generate"))
    assert of_kind(TurnEnd, items)[0].stop_reason == "length"


def test_measure_ar_answers(loaded, drain):
    client, _ = loaded()
    client.send(MeasureAr(steps=4))
    items = drain(client, answered("MeasureAr"))
    assert of_kind(ArMeasured, items) == [ArMeasured(lane=0, steps=4, kv_len=7, step_ns=4)]
    assert [(step.steps, step.kv_len, step.ns) for step in of_kind(ArStep, items)] == [(4, 7, 4)]


def test_mark_goes_into_the_stream_while_decoding(loaded, drain):
    client, _ = loaded()
    client.send(ask("forever"))
    client.send(Mark(label="here"))
    assert of_kind(Marker, drain(client, seen(Marker)))[0].label == "here"


def test_recording_holds_the_stream_from_its_start(loaded, drain, tmp_path):
    client, before = loaded()
    client.send(ask("rounds 50"))
    during = drain(client, answered("Generate"))
    path = tmp_path / "a.session"
    client.send(Record(path=str(path)))
    notice = of_kind(Recording, drain(client, seen(Recording)))[0]
    assert notice.path == str(path)
    client.close()
    last = of_kind(Recording, client.poll())[-1]
    assert (last.path, last.bytes) == (str(path), path.stat().st_size)
    with SessionReader.open(path) as reader:
        recorded = list(reader.events())
        assert not reader.warnings
    assert recorded == of_kind(Event, before + during)
    assert path.stat().st_mode & 0o777 == 0o600


def test_recording_without_a_turn_leaves_no_file(loaded, drain, tmp_path):
    client, _ = loaded()
    path = tmp_path / "a.session"
    client.send(Record(path=str(path)))
    client.send(ask("rounds 1", lane=3))
    assert of_kind(Refused, drain(client, seen(Refused)))
    assert path.exists()
    client.close()
    assert of_kind(Recording, client.poll())[-1].path is None
    assert not path.exists()


def test_close_leaves_no_spool_behind(loaded, tmp_path):
    client, items = loaded()
    spool = Path(items[0].spool)
    assert spool.exists()
    client.close()
    assert client._process.returncode == 0
    assert not spool.exists()


def test_shutdown_stops_a_turn_that_runs(loaded, drain):
    client, _ = loaded()
    client.send(ask("forever"))
    drain(client, seen(Round))
    client.close()
    assert client._process.returncode == 0
    assert of_kind(TurnEnd, client.poll(1 << 20))[-1].stop_reason == "cancelled"


def test_close_does_not_wait_for_a_load_and_saves_the_recording(loaded, drain, tmp_path):
    client, before = loaded()
    path = tmp_path / "a.session"
    client.send(Record(path=str(path)))
    client.send(ask("rounds 3"))
    during = drain(client, answered("Generate"))
    client.send(Load(config=LaneConfig(target="endless", devices="cpu:0")))
    client.send(ask("rounds 3"))
    drain(client, seen(Progress))
    client.close()
    assert client._process.returncode == 0
    with SessionReader.open(path) as reader:
        assert list(reader.events()) == of_kind(Event, before + during)
        assert reader.warnings == ()


def test_kill_mid_run_is_told_and_the_recording_opens(loaded, drain, tmp_path):
    client, before = loaded()
    path = tmp_path / "a.session"
    client.send(Record(path=str(path)))
    before += drain(client, seen(Recording))
    client.send(ask("forever"))
    during = drain(client, lambda items: bool(of_kind(Round, items)) and path.stat().st_size > 0)
    os.kill(client.pid, signal.SIGKILL)
    after = drain(client)
    assert "ended by SIGKILL" in client.death().reason
    events = of_kind(Event, before + during + after)
    rounds = of_kind(Round, events)
    assert [r.index for r in rounds] == list(range(len(rounds)))
    with SessionReader.open(path) as reader:
        recorded = list(reader.events())
        assert reader.warnings
    assert recorded
    assert recorded == events[: len(recorded)]


def test_a_killed_engine_is_read_to_the_end_of_its_spool(loaded, drain):
    client, before = loaded(view_queue=16)
    client.send(ask("kill 30000"))
    os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)
    events = of_kind(Event, before + drain(client))
    with SessionReader.open(Path(before[0].spool)) as reader:
        spooled = list(reader.events())
    assert events[: len(spooled)] == spooled
    assert len(of_kind(Round, events)) > 16


@pytest.fixture
def killed_view(tmp_path):
    """Kill a view when its engine has answered `commands`; gives the engine's spools once that has ended too."""

    def killed_view(commands: str, answer: str) -> list[Path]:
        view = f"""
            import pathlib, signal
            from specmon.core.engine.client import EngineClient
            from specmon.core.engine.messages import *
            client = EngineClient.start(state_dir=pathlib.Path({str(tmp_path)!r}), program=[{str(SCRIPTED)!r}])
            for command in {commands}: client.send(command)
            while not any(isinstance(item, {answer}) for item in client.wait(30.0)): pass
            print(client.pid, flush=True)
            signal.pause()
            """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(view)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            engine = os.pidfd_open(int(process.stdout.readline()))
            process.kill()
        try:
            assert select.select([engine], [], [], 20.0)[0], "the engine outlived its view"
        finally:
            os.close(engine)
        return list(tmp_path.glob("*.spool"))

    return killed_view


def test_the_engine_ends_when_its_view_is_killed(killed_view):
    assert killed_view("[]", "Hello") == []


def test_a_killed_view_ends_even_an_endless_turn_and_leaves_it_to_be_recovered(killed_view, tmp_path):
    generate = "Generate(request=Request(messages=(('user', 'forever'),)))"
    [spool] = killed_view(f"[Load(config=LaneConfig(devices='cpu:0')), {generate}]", "Idle")
    assert [found.path for found in list_recoverable(tmp_path)] == [spool]
    with SessionReader.open(spool) as reader:
        assert [event.stop_reason for event in reader.events() if isinstance(event, TurnEnd)] == ["cancelled"]


def test_ctrl_c_in_the_terminal_does_not_reach_the_engine(loaded, drain):
    client, _ = loaded()
    assert os.getsid(client.pid) != os.getsid(0)
    os.kill(client.pid, signal.SIGINT)
    client.send(ask("rounds 1"))
    assert of_kind(TurnEnd, drain(client, answered("Generate")))


def test_terminate_closes_the_recording(loaded, tmp_path, drain):
    client, _ = loaded()
    path = tmp_path / "a.session"
    client.send(Record(path=str(path)))
    client.send(ask("rounds 1"))
    drain(client, answered("Generate"))
    os.kill(client.pid, signal.SIGTERM)
    drain(client)
    death = client.death()
    assert death is not None
    assert death.reason == "The engine was ended by SIGTERM: it was asked to end from outside."
    with SessionReader.open(path) as reader:
        assert reader.warnings == ()
