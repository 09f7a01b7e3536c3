"""The monitor in a browser: said to have no password, bound to localhost, driven through stdin and stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from specmon.tui.commands.main import main

SHIPPED = Path(__file__).resolve().parents[2] / "sessions" / "ssd.session"
DRIVER = "textual.drivers.web_driver:WebDriver"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a server was asked for."""
    calls: list[dict[str, Any]] = []

    class Server:
        def __init__(self, command: str, **how: object) -> None:
            calls.append({"command": command, **how})

        def serve(self) -> None:
            calls[-1]["served"] = True

    module = types.ModuleType("textual_serve.server")
    module.Server = Server  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "textual_serve", types.ModuleType("textual_serve"))
    monkeypatch.setitem(sys.modules, "textual_serve.server", module)
    return calls


def test_serve_binds_to_localhost_and_says_there_is_no_password(
    served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "8123", "replay", "a b.session", "--ascii"]) == 0
    (call,) = served
    assert (call["host"], call["port"], call["served"]) == ("localhost", 8123, True)
    assert call["command"].endswith("-m specmon.tui.commands replay 'a b.session' --ascii")
    assert "no password" in capsys.readouterr().err


def test_serve_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    assert main(["serve"]) == 1
    assert "specmon[serve]" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "70000", "-1"])
def test_serve_refuses_a_bad_port(port: str) -> None:
    assert main(["serve", "--port", port]) == 2


def packet(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


def test_replay_speaks_to_a_browser_through_pipes(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "TEXTUAL_DRIVER": DRIVER,
        "COLUMNS": "100",
        "ROWS": "30",
        "XDG_STATE_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "specmon.tui.commands", "replay", str(SHIPPED)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while (line := process.stdout.readline()) != b"__GANGLION__\n":
            assert line, process.stderr.read() if process.stderr else ""
        resize = json.dumps({"type": "resize", "width": 100, "height": 30}).encode()
        process.stdin.write(packet(b"M", resize))
        process.stdin.flush()
        drawn = b""
        while b"REPLAY" not in drawn and (more := os.read(process.stdout.fileno(), 1 << 16)):
            drawn += more
        assert b"REPLAY" in drawn
        process.stdin.write(packet(b"D", b"q"))
        process.stdin.flush()
        process.stdout.read()
        assert process.wait(30) == 0
