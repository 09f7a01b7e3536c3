"""The client against small stand-in engines: order, death in every form, closing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import Cancel, Hello, Idle
from specmon.core.errors import SpecmonError
from specmon.core.events import Log


def test_client_hands_out_events_and_notices_in_order(stand_in, drain):
    client = stand_in(
        """
        say(messages.Hello(pid=os.getpid(), spool=None, log="x"))
        for i in range(500): emit(log(i))
        say(messages.Idle(of="Generate"))
        """
    )
    items = drain(client)
    assert isinstance(items[0], Hello)
    assert items[0].pid == client.pid
    assert [item.t for item in items if isinstance(item, Log)] == list(range(500))
    assert items[-1] == Idle(of="Generate")


def test_poll_respects_its_limit_and_loses_nothing(stand_in, drain):
    client = stand_in("for i in range(100): emit(log(i))")
    items = drain(client, max_items=7)
    assert [item.t for item in items] == list(range(100))
    assert client.poll() == []


def test_poll_never_waits(stand_in):
    client = stand_in("signal.pause()")
    assert client.poll() == []
    assert client.alive
    assert client.death() is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("raise KeyError('weights')", "code 1: KeyError: 'weights'"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("sys.exit(0)", "ended by itself"),
        ("sock.sendall(bytes(20))", "could not be read"),
        ("sock.sendall(b'\\xff\\xff\\xff\\xffE'); signal.pause()", "could not be read"),
        ("sock.sendall(b'\\x00\\x00\\x00\\x02N{}'); signal.pause()", "could not be read"),
    ],
)
def test_death_says_why_in_one_sentence(stand_in, drain, body, said):
    client = stand_in(body)
    drain(client)
    death = client.death()
    assert death is not None
    assert said in death.reason
    assert "\n" not in death.reason


def test_death_gives_the_last_log_lines_without_control_characters(stand_in, drain):
    client = stand_in("print('one'); print('two \\x1b[2J'); sys.exit(3)")
    drain(client)
    death = client.death()
    assert death is not None
    assert death.log_tail == ("one", "two \N{REPLACEMENT CHARACTER}[2J")


def test_what_a_dying_engine_sent_is_handed_out_before_it_counts_as_dead(stand_in, drain):
    client = stand_in("for i in range(50): emit(log(i))\nos.kill(os.getpid(), signal.SIGKILL)")
    assert len(drain(client)) == 50
    assert not client.alive


def test_half_a_frame_is_no_message(stand_in, drain):
    client = stand_in("emit(log(1)); sock.sendall(channel.frame_event(log(2))[:-1])")
    assert [item.t for item in drain(client)] == [1]


def test_send_to_a_dead_engine_is_a_user_error(stand_in, drain):
    client = stand_in("sys.exit(0)")
    drain(client)
    with pytest.raises(SpecmonError, match="gone"):
        client.send(Cancel())


def test_close_ends_an_engine_that_ignores_everything(stand_in, drain, monkeypatch):
    monkeypatch.setattr("specmon.core.engine.client._TERMINATE_S", 0.1)
    client = stand_in(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); emit(log(1))\nwhile True: signal.pause()"
    )
    drain(client, until=bool)
    client._end(0.0)  # close() with no patience left
    assert client._process.returncode == -signal.SIGKILL


def test_close_takes_in_what_a_talkative_engine_says_last(stand_in):
    client = stand_in(
        """
        sock.recv(1 << 16)
        for i in range(20_000): emit(log(i))
        """
    )
    client.close()
    assert client._process.returncode == 0
    assert client.poll(1 << 20)[-1].t == 19_999
    client.close()


def test_log_is_private_and_old_logs_are_pruned(stand_in, tmp_path):
    for _ in range(12):
        client = stand_in("sys.exit(0)")
    assert client.log_path.stat().st_mode & 0o777 == 0o600
    assert len(list((tmp_path / "state" / "logs").iterdir())) == 10


def test_a_state_folder_that_cannot_be_written_costs_only_the_spool(tmp_path):
    (tmp_path / "file").write_text("")
    client = EngineClient.start(state_dir=tmp_path / "file" / "state")
    try:
        hello = client.wait(30.0)[0]
        assert isinstance(hello, Hello)
        assert hello.spool is None
        assert client.log_path.stat().st_mode & 0o777 == 0o600
    finally:
        client.close()
        client.log_path.unlink()


def test_client_loads_without_torch():
    probe = "import sys, specmon.core.engine.client; print({'torch', 'numpy', 'textual'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"
