"""Driving an engine without a screen: ends, refusals, deaths and interrupts."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmon.core.engine.client import EngineClient
from specmon.core.engine.death import EngineDeath
from specmon.core.engine.messages import (
    Cancel,
    Command,
    Generate,
    Idle,
    LaneConfig,
    Load,
    Progress,
    Race,
    Ready,
    Record,
    Recording,
    Refused,
    Request,
)
from specmon.core.errors import SpecmonError
from specmon.core.events import AnyEvent, Event
from specmon.tui.commands import race as race_module
from specmon.tui.commands import run as run_module
from specmon.tui.commands.headless import Headless

LOAD, GENERATE = Load(config=LaneConfig()), Generate(request=Request(messages=()))
DONE = {"Load": [Idle(of="Load")], "Generate": [Idle(of="Generate")], "Race": [Idle(of="Race")]}


class ScriptedClient:
    """Answers each command with what `answers` holds for its kind; an exception there is raised by `wait`."""

    def __init__(self, answers: dict[str, list[Any]], *, dies: EngineDeath | None = None) -> None:
        self.sent: list[Command] = []
        self.closed = False
        self._answers = answers
        self._waiting: list[Any] = []
        self._dies = dies

    @property
    def alive(self) -> bool:
        return self._dies is None or bool(self._waiting)

    def send(self, command: Command) -> None:
        self.sent.append(command)
        self._waiting += self._answers.get(type(command).__name__, [])

    def wait(self, timeout_s: float) -> list[Any]:
        if not self._waiting and self._dies is None:
            raise AssertionError("waits for an answer that will not come")
        item = self._waiting.pop(0) if self._waiting else None
        if isinstance(item, BaseException):
            raise item
        return [] if item is None else [item]

    def death(self) -> EngineDeath | None:
        return None if self.alive else self._dies

    def poll(self) -> list[Any]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self, timeout_s: float) -> None:
        self.closed = True
        self._waiting += self._answers.get("Shutdown", [])
        self.patience_s = timeout_s

    def kinds(self) -> list[str]:
        return [type(command).__name__ for command in self.sent]


def headless(client: ScriptedClient, events: list[Event] | None = None) -> Headless:
    return Headless(client, (events if events is not None else []).append)  # type: ignore[arg-type]


def test_command_ends_with_its_own_idle(turn: Callable[..., list[AnyEvent]]) -> None:
    events: list[Event] = []
    client = ScriptedClient({"Generate": [Idle(of="Load"), *turn(), Idle(of="Generate")]})
    headless(client, events).do(GENERATE)
    assert events == turn()


def test_refusal_becomes_the_error_with_its_exit_code() -> None:
    refused = Refused(of="Load", message="There is no device 'cuda:9'.", hint="Say auto.", exit_code=2)
    with pytest.raises(SpecmonError, match=r"no device 'cuda:9'\. Say auto") as caught:
        headless(ScriptedClient({"Load": [refused]})).do(LOAD)
    assert caught.value.exit_code == 2


def test_death_is_told_with_the_last_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    death = EngineDeath(reason="The engine was killed.", log_tail=("loading", "boom \x1b[2J"))
    with pytest.raises(SpecmonError, match="killed"):
        headless(ScriptedClient({}, dies=death)).do(LOAD)
    err = capsys.readouterr().err
    assert err.splitlines()[0] == "loading"
    assert "\x1b" not in err


def test_progress_is_said_once_a_step_and_notes_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    told = [Progress(what="reading weights", fraction=f / 4) for f in range(4)]
    client = ScriptedClient({"Load": [*told, Ready(lane=0, notes=("Skipped cuda:0.",)), Idle(of="Load")]})
    headless(client).do(LOAD)
    assert capsys.readouterr().err.splitlines() == ["specmon: reading weights", "specmon: Skipped cuda:0."]


def test_interrupt_cancels_and_waits_for_the_round_border(turn: Callable[..., list[AnyEvent]]) -> None:
    events: list[Event] = []
    answers = {"Generate": [*turn()[:3], KeyboardInterrupt()], "Cancel": [turn()[-1], Idle(of="Generate")]}
    client = ScriptedClient(answers)
    with pytest.raises(KeyboardInterrupt):
        headless(client, events).do(GENERATE)
    assert client.kinds() == ["Generate", "Cancel"]
    assert events == [*turn()[:3], turn()[-1]]


def test_second_interrupt_does_not_wait() -> None:
    client = ScriptedClient({"Generate": [KeyboardInterrupt()], "Cancel": [KeyboardInterrupt()]})
    with pytest.raises(KeyboardInterrupt), headless(client) as engine:
        engine.do(GENERATE)
    assert client.sent[-1] == Cancel()
    assert client.closed


def test_interrupted_load_is_not_waited_for() -> None:
    client = ScriptedClient({"Load": [KeyboardInterrupt()]})
    with pytest.raises(KeyboardInterrupt), headless(client) as engine:
        engine.do(LOAD)
    assert client.kinds() == ["Load"]
    assert client.patience_s <= 1


def test_record_waits_until_the_recording_is_kept(tmp_path: Path) -> None:
    none, kept = (Recording(path=path, seconds=0, bytes=0) for path in (None, "/there/a.session"))
    client = ScriptedClient({"Record": [none, kept]})
    engine = headless(client)
    engine.record(Path("a.session"), force=True)
    assert engine.recording == "/there/a.session"
    assert client.sent == [Record(path=str(Path("a.session").absolute()), force=True)]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedClient]:
    """Make `EngineClient.start` give a scripted engine, and let decoding start without models."""

    def install(answers: dict[str, list[Any]]) -> ScriptedClient:
        client = ScriptedClient(answers)
        monkeypatch.setattr(EngineClient, "start", lambda **_: client)
        for module in (run_module, race_module):
            monkeypatch.setattr(module, "prepare", lambda lanes: None)
        return client

    return install


def test_run_streams_text_and_sums_up(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    client = engine({**DONE, "Generate": [*turn(), Idle(of="Generate")]})
    code, out, err = cli("run", "-p", "Count.", "--decoder", "sd", "--stop", "END", "--seed", "7")
    assert (code, out) == (0, "one two three.")
    assert "5 tokens in 2 rounds" in err
    assert client.kinds() == ["Load", "Generate"]
    assert client.closed
    generate = client.sent[1]
    assert isinstance(generate, Generate)
    assert (generate.request.stop_strings, generate.request.seed) == (("END",), 7)


def test_run_json_is_the_object_alone(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    engine({**DONE, "Generate": [*turn(), Idle(of="Generate")]})
    code, out, err = cli("run", "--json", stdin="Count to three – slowly.".encode())
    assert (code, err) == (0, "")
    assert json.loads(out)["text"] == "one two three."


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("Count.\n", "Count."),
        ("Count.\r\n", "Count."),
        ("Count.\n\n", "Count.\n"),
        (" One,\r\ntwo \r", " One,\r\ntwo \r"),
    ],
)
@pytest.mark.parametrize("from_file", [False, True])
def test_prompt_from_a_stream_loses_one_final_newline(
    cli: Callable[..., Any],
    engine: Callable[..., ScriptedClient],
    tmp_path: Path,
    content: str,
    prompt: str,
    from_file: bool,
) -> None:
    client = engine(DONE)
    (tmp_path / "prompt").write_bytes(content.encode())
    option = ("--prompt-file", str(tmp_path / "prompt")) if from_file else ()
    cli("run", "--json", *option, stdin=b"" if from_file else content.encode())
    generate = client.sent[1]
    assert isinstance(generate, Generate)
    assert generate.request.messages == (("user", prompt),)


FULL = "/there/a.session cannot be written: no space left on device."


def kept(**fields: Any) -> Recording:
    return Recording(path="/there/a.session", seconds=1.0, bytes=100, **fields)


@pytest.mark.parametrize(
    "notices",
    [
        {"Record": [kept()], "Generate": [kept(error=FULL)] * 3, "Shutdown": [kept(error=FULL)]},
        {"Record": [kept()], "Shutdown": [kept(error=FULL)]},
        {"Record": [kept()], "Generate": [kept(error=FULL, whole=False)], "Shutdown": [kept(whole=False)]},
    ],
    ids=["from the first", "at the end", "for a while"],
)
def test_recording_that_lacks_events_fails_a_run_that_went_through(
    cli: Callable[..., Any],
    engine: Callable[..., ScriptedClient],
    turn: Callable[..., list[AnyEvent]],
    tmp_path: Path,
    notices: dict[str, list[Any]],
) -> None:
    told = notices.get("Generate", [])
    engine({**DONE, **notices, "Generate": [*told, *turn(), Idle(of="Generate")]})
    code, out, err = cli("run", "--plain", "-p", "Count.", "--record", str(tmp_path / "a.session"))
    assert (code, out) == (1, "one two three.")
    assert err.count("no space left") == 1
    assert "· incomplete recording /there/a.session" in err
    last = err.splitlines()[-1]
    assert last.startswith("specmon: The recording /there/a.session is incomplete.")
    assert ("replay --recover" in last) is all(notice.whole for notice in [*told, *notices["Shutdown"]])


def test_recording_that_was_behind_for_a_while_is_fine(
    cli: Callable[..., Any],
    engine: Callable[..., ScriptedClient],
    turn: Callable[..., list[AnyEvent]],
    tmp_path: Path,
) -> None:
    answers = {"Record": [kept()], "Generate": [kept(error=FULL), *turn(), Idle(of="Generate")]}
    engine({**DONE, **answers, "Shutdown": [kept()]})
    code, _, err = cli("run", "--json", "-p", "Count.", "--record", str(tmp_path / "a.session"))
    assert (code, err) == (0, f"specmon: {FULL}\n")


def test_spool_that_cannot_be_written_is_told_once_and_harms_nothing(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    none = Recording(path=None, seconds=0, bytes=0, error="The recording cannot be written.", whole=False)
    engine({**DONE, "Generate": [none, none, *turn(), Idle(of="Generate")], "Shutdown": [none]})
    code, _, err = cli("run", "--json", "-p", "Count.")
    assert (code, err) == (0, "specmon: The recording cannot be written.\n")


def test_race_with_an_incomplete_recording_exits_1(
    cli: Callable[..., Any],
    engine: Callable[..., ScriptedClient],
    turn: Callable[..., list[AnyEvent]],
    tmp_path: Path,
) -> None:
    answers = {"Record": [kept()], "Race": [*turn(), *turn(lane=1), Idle(of="Race")]}
    engine({**DONE, **answers, "Shutdown": [kept(error=FULL)]})
    record = ("--record", str(tmp_path / "a.session"))
    code, out, err = cli("race", "--json", "-p", "Count.", "--lanes", "sd,sd", *record)
    assert (code, json.loads(out)["equal"]) == (1, True)
    assert "is incomplete" in err


class SelfEnding(ScriptedClient):
    """Sends its own process SIGTERM in the middle of a request."""

    def wait(self, timeout_s: float) -> list[Any]:
        items = super().wait(timeout_s)
        if items == ["SIGTERM"]:
            signal.raise_signal(signal.SIGTERM)
        return items


def test_terminated_run_is_summed_up_and_exits_143(
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    engine: Callable[..., ScriptedClient],
    turn: Callable[..., list[AnyEvent]],
) -> None:
    engine({})
    client = SelfEnding(
        {**DONE, "Generate": [*turn()[:4], "SIGTERM"], "Cancel": [turn()[-1], Idle(of="Generate")]}
    )
    monkeypatch.setattr(EngineClient, "start", lambda **_: client)
    before = signal.getsignal(signal.SIGTERM)
    code, out, err = cli("run", "--plain", "-p", "Count.")
    assert (code, out) == (143, "one two.")
    assert "SD · draft n-gram" in err
    assert client.kinds() == ["Load", "Generate", "Cancel"]
    assert client.closed
    assert signal.getsignal(signal.SIGTERM) == before


def test_interrupted_run_is_summed_up_and_exits_130(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    client = engine({**DONE, "Generate": [*turn()[:4], KeyboardInterrupt()], "Cancel": [Idle(of="Generate")]})
    code, out, err = cli("run", "--plain", "-p", "Count.")
    assert (code, out) == (130, "one two")
    assert "3 tokens in 1 round ·" in err
    assert client.closed


def test_run_that_fails_inside_says_why(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    import msgspec

    failed = msgspec.structs.replace(turn()[-1], stop_reason="error", error="Out of memory on cuda:0.")
    engine({**DONE, "Generate": [*turn()[:-1], failed, Idle(of="Generate")]})
    code, _, err = cli("run", "--plain", "-p", "Count.")
    assert code == 1
    assert err.splitlines()[-1] == "specmon: Out of memory on cuda:0."


def test_race_loads_its_lanes_and_prints_standings(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    client = engine({**DONE, "Race": [*turn(), *turn(lane=1), Idle(of="Race")]})
    code, out, _ = cli("race", "--json", "-p", "Count.", "--lanes", "sd,sd:6", "--draft-len", "2")
    assert code == 0
    assert json.loads(out)["equal"] is True
    assert client.kinds() == ["Load", "Load", "Race"]
    loads = [command for command in client.sent if isinstance(command, Load)]
    assert [(load.lane, load.config.draft_len) for load in loads] == [(0, 2), (1, 6)]
    assert isinstance(client.sent[-1], Race)


def test_race_whose_lanes_differ_exits_1(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], turn: Callable[..., list[AnyEvent]]
) -> None:
    engine({**DONE, "Race": [*turn(), *turn(("one", " two"), lane=1), Idle(of="Race")]})
    code, out, err = cli("race", "--json", "-p", "Count.", "--lanes", "sd,sd")
    assert code == 1
    assert json.loads(out)["equal"] is False
    assert "differ from token 3 on" in err


def test_engine_is_closed_when_it_refuses(
    cli: Callable[..., Any], engine: Callable[..., ScriptedClient], tmp_path: Path
) -> None:
    client = engine({"Load": [Refused(of="Load", message="There is no folder x.", exit_code=2)]})
    code, out, err = cli("run", "--json", "-p", "Count.", "--target", "x", "--record", str(tmp_path))
    assert (code, out, err) == (2, "", "specmon: There is no folder x.\n")
    assert client.closed
    assert list(tmp_path.glob("*.session")) == []


def test_monitor_needs_all_three_streams_to_be_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    from specmon.tui.commands.options import on_terminal

    class Stream:
        def __init__(self, terminal: bool) -> None:
            self.isatty = lambda: terminal

    for piped in (None, "stdin", "stdout", "stderr"):
        for name in ("stdin", "stdout", "stderr"):
            monkeypatch.setattr(sys, name, Stream(name != piped))
        on = on_terminal()
        monkeypatch.undo()
        assert on is (piped is None)
