"""Where stdout cannot take what is written to it: signs it has no encoding for, a disk that is full."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmon.tui.commands import screen

Recording = Callable[..., Path]
MAIN = "import sys; from specmon.tui.commands.main import main; sys.exit(main())"
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("encoding", [C_LOCALE, {"PYTHONIOENCODING": "latin-1"}])
def test_picture_has_ascii_signs_where_stdout_carries_no_others(
    private_home: dict[str, str], recording: Recording, encoding: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "replay", str(recording()), "--once", "--size", "100x30"],
        capture_output=True,
        env={**private_home, **encoding},
        timeout=60,
        check=True,
    )
    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout
    assert b"+- 1 text" in done.stdout.lower()


def test_signs_are_unicode_where_the_stream_drawn_on_carries_them(
    monkeypatch: pytest.MonkeyPatch, private_home: dict[str, str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", private_home["XDG_CONFIG_HOME"])
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    with (
        (tmp_path / "a").open("w", encoding="utf-8") as utf8,
        (tmp_path / "b").open("w", encoding="cp437") as old,
    ):
        monkeypatch.setattr(sys, "stdout", utf8)
        monkeypatch.setattr(sys, "stderr", old)
        monitor, picture = screen.look(None, False, False), screen.look(None, False, False, (80, 24))
        monkeypatch.setenv("TEXTUAL_DRIVER", "x")
        browser = screen.look(None, False, False)
    assert (monitor.ascii, picture.ascii, browser.ascii) == (True, False, False)


@pytest.mark.parametrize("option", ["--json", "--dump", "--plain", "--check", "--once"])
def test_full_stdout_is_one_sentence(private_home: dict[str, str], recording: Recording, option: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "replay", str(recording()), option],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=private_home,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("specmon: ")]
    assert said == ["specmon: Standard output cannot be written: no space left on device."]
    assert "Error" not in done.stderr


def test_redacting_onto_a_full_disk_leaves_no_file(
    cli: Callable[..., Any], recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, copy = recording(), tmp_path / "copy.session"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specmon.core.session.writer.write_all", full)
    code, _, err = cli("redact", str(original), str(copy))
    assert (code, err) == (1, f"specmon: {copy} cannot be written: no space left on device.\n")
    assert list(tmp_path.glob("*.session")) == [original]
