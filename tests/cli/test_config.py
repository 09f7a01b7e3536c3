"""The config file: defaults of options, looks and keys; what nothing reads is said, what is wrong is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmon.core.errors import UsageError
from specmon.tui.commands import options, screen
from specmon.tui.commands.config import RUN_OPTIONS, Config, read_config
from specmon.tui.commands.main import app


@pytest.fixture
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's config folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "specmon"
    folder.mkdir()
    return folder


def written(folder: Path, text: str) -> Config:
    (folder / "config.toml").write_text(text, "utf-8")
    return read_config(folder)


def test_no_config_is_an_empty_one(tmp_path: Path) -> None:
    config = read_config(tmp_path)
    assert (config.looks, config.run, config.keys, config.notes) == ({}, {}, {}, ())


def test_config_gives_defaults_to_the_commands_that_have_the_option(tmp_path: Path) -> None:
    text = 'theme = "paper"\nmouse = false\n[run]\ndecoder = "sd"\ndraft_len = 6\ntemperature = 1'
    defaults = written(tmp_path, text).defaults()
    look = {"theme": "paper", "no_mouse": True}
    assert defaults["run"] == {"decoder": "sd", "draft_len": 6, "temperature": 1.0, **look}
    assert defaults["race"] == {"draft_len": 6, "temperature": 1.0, **look}
    assert defaults["replay"] == look


def test_every_option_of_the_config_is_one_of_run() -> None:
    import typer.main

    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    assert {param.name for param in command.params} >= RUN_OPTIONS.keys()


def test_options_of_the_command_line_win(config_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specmon.tui.commands import run
    from specmon.tui.commands.main import main

    written(config_home, "[run]\ndraft_len = 6\nseed = 9")
    seen = []
    monkeypatch.setattr(run, "prepare", lambda _: None)
    monkeypatch.setattr(run, "decode", lambda config, request, **_: seen.append((config, request)))
    assert main(["run", "-p", "x", "--plain", "--draft-len", "3"]) == 0
    assert main(["-p", "x", "--plain"]) == 0
    assert [(config.draft_len, request.seed) for config, request in seen] == [(3, 9), (6, 9)]


def test_unknown_names_are_said(tmp_path: Path) -> None:
    config = written(tmp_path, 'colour = "red"\n[run]\ndraftlen = 6\n[extra]\nx = 1')
    assert config.unknown == ("colour", "extra", "run.draftlen")
    assert config.notes[0].startswith("config.toml: nothing reads colour, extra, run.draftlen")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("theme = [", "not valid TOML"),
        ("theme = 3", "theme 3, but it takes a text in quotes"),
        ("ascii = 1", "ascii 1, but it takes true or false"),
        ('[run]\ndraft_len = "4"', "run.draft_len '4', but it takes a whole number"),
        ("[run]\nseed = 1.5", "run.seed 1.5, but it takes a whole number"),
        ("[keys]\nfreeze = 3", "keys.freeze 3, but it takes a text in quotes"),
        ("run = 3", "gives run a value, but it is a table"),
    ],
)
def test_wrong_config_is_refused_in_a_sentence(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        written(tmp_path, text)
    assert reason in str(caught.value)
    assert str(tmp_path / "config.toml") in str(caught.value)


def test_binary_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_config(tmp_path)


def test_broken_config_does_not_stop_help(config_home: Path) -> None:
    from specmon.tui.commands.main import main

    (config_home / "config.toml").write_text("theme = [")
    assert main(["--help"]) == 0
    assert main(["replay", "--check", "x.session"]) == 2


def test_keys_and_refresh_reach_the_look(config_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    written(config_home, 'refresh_hz = 8\n[keys]\nfreeze = "F2"\nfly = "F3"')
    look = screen.look(None, False, False)
    assert (look.refresh_hz, look.keys["freeze"]) == (8.0, "F2")
    assert "keys.fly" in look.notes[0]
    assert "keys.freeze" not in look.notes[0]


def test_a_key_for_two_actions_is_refused(config_home: Path) -> None:
    written(config_home, '[keys]\nfreeze = "q"')
    with pytest.raises(UsageError, match="q would do both freeze and quit"):
        screen.look(None, False, False)


def test_refresh_is_slow_over_ssh_unless_the_config_says(
    config_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 22 10.0.0.2 22")
    assert screen.look(None, False, False).refresh_hz == 5.0
    written(config_home, "refresh_hz = 20")
    assert screen.look(None, False, False).refresh_hz == 20.0
    written(config_home, "refresh_hz = 0")
    with pytest.raises(UsageError, match="refresh_hz"):
        screen.look(None, False, False)


def test_themes_of_the_config_folder_can_be_named(config_home: Path) -> None:
    (config_home / "themes").mkdir()
    (config_home / "themes" / "mine.toml").write_text("dark = 3")
    with pytest.raises(UsageError, match=r"mine\.toml needs a text `name`"):
        screen.look("mine", False, False)


@pytest.mark.parametrize("text", ["160", "x48", "axb", "0x10", "160x48x2", "2000x10"])
def test_bad_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--size"):
        options.parse_size(text)


def test_size_of_a_frame() -> None:
    assert options.parse_size("160x48") == (160, 48)
    assert min(options.parse_size("")) >= 1


def test_the_example_in_the_readme_works(config_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    example = readme.partition("```toml\n")[2].partition("```")[0]
    config = written(config_home, example)
    assert config.notes == ()
    assert config.defaults()["run"]["theme"] == "paper"
    look = screen.look(None, False, False)
    assert look.notes == ()
    assert look.keys["freeze"] == "F2"


def test_a_key_that_is_none_is_said_and_the_action_keeps_its_own(config_home: Path) -> None:
    written(config_home, '[keys]\nfreeze = "banana"\nhelp = "ctrl+F3 é backslash"')
    look = screen.look(None, False, False)
    assert look.keys == {"help": "ctrl+F3 é backslash"}
    assert len(look.notes) == 1
    assert "keys.freeze is 'banana', which is no key" in look.notes[0]


@pytest.mark.parametrize("mode", [("--plain",), ("--json",), ("--once", "--size", "80x24")])
def test_what_nothing_reads_is_said_once_without_a_monitor(
    cli: Callable[..., Any],
    private_home: dict[str, str],
    recording: Callable[..., Path],
    mode: tuple[str, ...],
) -> None:
    folder = Path(private_home["XDG_CONFIG_HOME"]) / "specmon"
    folder.mkdir(parents=True)
    written(folder, 'bogus = 1\n[keys]\nfoo = "x"')
    code, out, err = cli("replay", str(recording()), *mode)
    assert code == 0
    assert "bogus" not in out
    assert err.count("config.toml: nothing reads bogus, keys.foo") == 1


@pytest.mark.parametrize("command", ["run", "race"])
def test_headless_decoding_says_what_nothing_reads(
    cli: Callable[..., Any], private_home: dict[str, str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from specmon.tui.commands import race, run

    folder = Path(private_home["XDG_CONFIG_HOME"]) / "specmon"
    folder.mkdir(parents=True)
    written(folder, 'bogus = 1\n[keys]\nfreeze = "q"')
    for module in (run, race):
        monkeypatch.setattr(module, "prepare", lambda _: None)
        monkeypatch.setattr(module, "decode", lambda *_, **__: None)
    code, _, err = cli(command, "-p", "hello", "--json")
    assert code == 0
    assert "nothing reads bogus" in err
    assert "q would do both freeze and quit" in err


@pytest.mark.parametrize("size", ["79x24", "80x23"])
def test_picture_smaller_than_the_monitor_is_refused(
    cli: Callable[..., Any], recording: Callable[..., Path], size: str
) -> None:
    code, out, err = cli("replay", str(recording()), "--once", "--size", size)
    assert (code, out) == (2, "")
    assert f"needs 80x24, but {size}" in err
