"""What reaches a terminal is shown, never obeyed; what reaches a pipe is what the model said."""

from __future__ import annotations

import io
import json
import sys

import pytest

from specmon.tui.commands.fetching import ProgressLine
from specmon.tui.commands.output import TextStream, say, visible, write_json
from specmon.tui.commands.report import Report

HOSTILE = "a\x1b[31mred\x07\r\x9b2J\u202egnp\x00\tb\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_visible_keeps_lines_tabs_and_letters() -> None:
    assert visible("def f():\n\treturn 'ü → 日本'\n") == "def f():\n\treturn 'ü → 日本'\n"


def test_visible_leaves_nothing_a_terminal_obeys() -> None:
    shown = visible(HOSTILE)
    assert not set("\x1b\x07\r\x9b\u202e\x00") & set(shown)
    assert "[31mred" in shown


def test_text_to_a_terminal_shows_escapes() -> None:
    out = Terminal()
    stream = TextStream(out)
    stream.write(HOSTILE)
    assert out.getvalue() == visible(HOSTILE)


def test_text_to_a_pipe_is_verbatim() -> None:
    out = io.StringIO(newline="")
    stream = TextStream(out)
    stream.write(HOSTILE)
    stream.write("no newline at the end")
    stream.end_line()
    assert out.getvalue() == HOSTILE + "no newline at the end"


@pytest.mark.parametrize(("text", "ended"), [("x", "x\n"), ("x\n", "x\n"), ("", "")])
def test_text_on_a_terminal_ends_its_line_once(text: str, ended: str) -> None:
    out = Terminal()
    stream = TextStream(out)
    stream.write(text)
    stream.end_line()
    stream.end_line()
    assert out.getvalue() == ended


def test_what_is_said_in_the_middle_of_a_text_has_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    stream = TextStream(out)
    stream.write("one")
    Report(stream).say("The disk is full.")
    stream.write(" two")
    assert out.getvalue() == "one\nspecmon: The disk is full.\n two"


def test_json_is_one_ascii_line_that_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"text": HOSTILE, "missing": None})
    out = capsys.readouterr().out
    assert out.isascii()
    assert out[:-1].isprintable()
    assert json.loads(out) == {"text": HOSTILE, "missing": None}


def test_say_is_one_safe_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"cannot read {HOSTILE} at all")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_progress_in_a_log_is_one_line_a_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = ProgressLine()
    for done in range(11):
        progress("downloading", done * 1_000_000, 10_000_000)
    progress("unpacking", 10_000_000, 10_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["downloading 0.0 of 10.0 MB", "unpacking 10.0 of 10.0 MB"]


def test_progress_on_a_terminal_rewrites_one_line_and_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = ProgressLine()
    for done in range(11):
        progress("downloading", done * 1_000_000, 10_000_000)
    assert terminal.getvalue().startswith("\r\x1b[Kdownloading 0.0 of 10.0 MB")
    assert terminal.getvalue().endswith("\r\x1b[Kdownloading 10.0 of 10.0 MB\n")
    assert terminal.getvalue().count("\n") == 1
