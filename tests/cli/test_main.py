"""The entry point: what it imports, where a call without a command goes, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from specmon import __version__
from specmon.tui.commands import run as run_module
from specmon.tui.commands.main import main

HEAVY = ("torch", "textual", "transformers", "numpy", "rich", "msgspec")


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["race", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys; from specmon.tui.commands.main import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert "specmon" in done.stdout


def test_help_names_every_command_and_the_shared_options(cli: Callable[..., Any]) -> None:
    out = cli("--help").out
    for command in ("run", "race", "replay", "redact", "models", "doctor"):
        assert f"  {command} " in out
    options = cli("run", "--help").out
    for option in ("--target", "--draft", "--decoder", "--draft-len", "--fan-out", "--recipe", "--devices"):
        assert f"{option} " in options


@pytest.mark.parametrize("group", ["bench", "kernels"])
def test_a_group_without_a_command_shows_its_help_as_it_is_laid_out(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = cli(group)
    assert (code, out) == (2, "")
    assert err.startswith(f"Usage: specmon {group}")
    commands = err.partition("Commands:\n")[2].splitlines()
    assert len(commands) >= 2
    assert not any(line.endswith(("...", ",.", " .")) for line in commands)


def test_version_is_the_package_version(cli: Callable[..., Any]) -> None:
    assert cli("--version") == (0, f"specmon {__version__}\n", "")


@pytest.mark.parametrize("args", [("-p", "hello", "--json"), ("run", "-p", "hello", "--json")])
def test_call_without_a_command_runs(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(run_module, "prepare", lambda lanes: None)
    monkeypatch.setattr(run_module, "decode", lambda config, request, **_: asked.append(request))
    assert cli(*args).code == 0
    assert [request.messages for request in asked] == [(("user", "hello"),)]


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, ""),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
            1,
            "specmon: Memory ran out. Use a smaller model, or free memory and try again.\n",
        ),
        (RuntimeError("odd"), 1, "specmon: RuntimeError: odd (an error in specmon; --debug shows where).\n"),
    ],
)
def test_every_end_has_its_exit_code(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, sentence: str
) -> None:
    def fail(lanes: object) -> None:
        raise error

    monkeypatch.setattr(run_module, "prepare", fail)
    assert cli("-p", "hello") == (code, "", sentence)


def test_closed_pipe_ends_quietly(recording: Callable[..., Any]) -> None:
    path = recording()
    code = "import sys; from specmon.tui.commands.main import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, "replay", str(path), "--dump"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1


def test_main_takes_the_command_line_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["specmon", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("specmon ")
