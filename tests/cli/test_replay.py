"""`specmon replay` and `redact` without a terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from specmon.core.events import AnyEvent, Round
from specmon.core.session.reader import SessionReader
from specmon.tui.commands.replay import print_recording
from specmon.tui.commands.report import Report

Cli = Callable[..., Any]
Recording = Callable[..., Path]
HOSTILE = ("\x1b]0;owned\x07", "\x1b[2J", "\u202e")


def test_plain_replay_prints_the_text_and_a_summary(cli: Cli, recording: Recording) -> None:
    code, out, err = cli("replay", "--plain", str(recording()))
    assert (code, out) == (0, "one two three.")
    assert "5 tokens in 2 rounds · τ 2.00 · α 1.000" in err
    assert "SD · draft n-gram · recipe fp32 · cpu:0" in err


def test_replay_without_a_terminal_is_plain(cli: Cli, recording: Recording) -> None:
    assert cli("replay", str(recording())).out == "one two three."


def test_json_replay_is_one_object_with_the_contract_fields(cli: Cli, recording: Recording) -> None:
    path = recording()
    code, out, err = cli("replay", "--plain", "--json", str(path))
    figures = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert " ".join(figures) == (
        "decoder draft recipe backend devices tokens text n_tokens rounds tokens_per_round acceptance_rate"
        " branch_hit_rate prefill_ms decode_ms tokens_per_s request_tokens_per_s ms_per_token overlap_ms"
        " sol_fraction stop_reason session host_launches_per_round fan_out target draft_len draft_nodes"
    )
    assert figures["tokens"] == [1, 2, 3, 2, 3]
    assert figures["branch_hit_rate"] is None
    assert figures["session"] == str(path)


def test_live_report_and_replay_give_the_same_json(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording()
    live = Report(None)
    for event in turn():
        live.feed(event)
    live.finish(str(path))
    printed = capsys.readouterr().out
    assert cli("replay", "--json", str(path)).out == printed


def test_text_with_escapes_is_piped_verbatim_and_escaped_in_json(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]]
) -> None:
    path = str(recording(turn(HOSTILE)))
    assert cli("replay", "--plain", path).out == "".join(HOSTILE) + "."
    out = cli("replay", "--json", path).out
    assert out[:-1].isprintable()
    assert json.loads(out)["text"] == "".join(HOSTILE) + "."


def test_recording_of_a_race_gives_all_lanes(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]]
) -> None:
    path = str(recording([*turn(), *turn(lane=1)]))
    figures = json.loads(cli("replay", "--json", path).out)
    assert [lane["n_tokens"] for lane in figures["lanes"]] == [5, 5]
    assert figures["equal"] is True
    err = cli("replay", "--plain", path).err
    assert "All outputs are equal." in err
    assert [line[:1] for line in err.splitlines()[1:3]] == ["A", "B"]


def test_check_accepts_a_sound_recording(cli: Cli, recording: Recording) -> None:
    code, out, _ = cli("replay", "--check", str(recording()))
    assert code == 0
    assert out.endswith("2 rounds: all identities hold.\n")


def test_check_names_what_is_broken(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]]
) -> None:
    events = [
        msgspec.structs.replace(event, accepted_len=0, bonus=2) if isinstance(event, Round) else event
        for event in turn()
    ]
    code, out, err = cli("replay", "--check", str(recording(events)))
    assert code == 1
    assert "lane 0 turn 0 round 0: emitted 2 tokens, more than accepted_len 0 + 1" in out
    assert "breaks" in err


def test_dump_prints_one_json_line_an_event(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]]
) -> None:
    code, out, _ = cli("replay", "--dump", str(recording()))
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert code == 0
    assert kinds == ["Header", *(type(event).__name__ for event in turn())]


def test_dump_without_times_is_the_same_for_two_runs_that_decided_alike(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]]
) -> None:
    later = [
        msgspec.structs.replace(event, t1=event.t1 + 7) if isinstance(event, Round) else event
        for event in turn()
    ]
    first = cli("replay", "--dump", "--no-times", str(recording()))
    second = cli("replay", "--dump", "--no-times", str(recording(later, name="b.session")))
    assert first.out == second.out
    assert '"t1"' not in first.out


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", 2, "is empty"),
        (b"hello, I am no recording", 2, "not a .session"),
        (b"\x1b[2J\x00\xff" * 50, 2, "not a .session"),
        ("cut in the header", 1, "cut off"),
    ],
)
@pytest.mark.parametrize("way", ["--plain", "--json", "--check", "--dump"])
def test_file_that_is_no_recording_is_one_sentence(
    cli: Cli, recording: Recording, tmp_path: Path, content: bytes | str, code: int, message: str, way: str
) -> None:
    path = tmp_path / "bad.session"
    path.write_bytes(recording().read_bytes()[:60] if isinstance(content, str) else content)
    done = cli("replay", way, str(path))
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_newer_schema_names_the_version_to_install(cli: Cli, recording: Recording) -> None:
    path = recording(schema="2.0", versions={"specmon": "3.1.4"})
    code, out, err = cli("replay", "--json", str(path))
    assert (code, out) == (1, "")
    assert "Install specmon 3.1.4 or newer" in err
    assert err.count("\n") == 1


def test_torn_recording_is_shown_with_a_warning(cli: Cli, recording: Recording) -> None:
    path = recording()
    with SessionReader.open(path) as reader:
        end_mark = reader.frames[-1].end
    path.write_bytes(path.read_bytes()[: end_mark + 20])
    code, out, err = cli("replay", "--plain", str(path))
    assert (code, out) == (0, "one two three.")
    assert "cut off" in err or "not closed" in err


@pytest.mark.parametrize("ended", [False, True])
def test_warning_and_summary_have_lines_of_their_own_where_the_text_goes(
    recording: Recording, private_home: dict[str, str], ended: bool, turn: Callable[..., list[AnyEvent]]
) -> None:
    path = recording([*turn()[:-1], msgspec.structs.replace(turn()[-1], text=".\n" if ended else ".")])
    with SessionReader.open(path) as reader:
        os.truncate(path, reader.frames[-1].end)
    code = "import sys; from specmon.tui.commands.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "replay", "--plain", str(path)]
    lines = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=private_home,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    assert lines[0] == "one two three."
    assert lines[1].startswith("5 tokens")
    assert lines[-1].startswith("specmon: The recording was not closed")


def test_warning_comes_after_the_text_on_a_terminal(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    path = recording()
    with SessionReader.open(path) as reader:
        os.truncate(path, reader.frames[-1].end)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    print_recording(path, follow=False, json=False)
    lines = terminal.getvalue().splitlines()
    assert (lines[0], lines[-1][:13]) == ("one two three.", "specmon: The ")


def test_recording_without_a_turn_is_said_so(cli: Cli, recording: Recording) -> None:
    code, out, err = cli("replay", "--json", str(recording([])))
    assert (code, out) == (1, "")
    assert "holds no turn" in err


def test_follow_reads_a_closed_recording_to_its_end(cli: Cli, recording: Recording) -> None:
    assert cli("replay", "--follow", "--plain", str(recording())).out == "one two three."


def test_follow_reads_a_pipe(specmon: Callable[..., Any], recording: Recording) -> None:
    with recording().open("rb") as pipe:
        done = specmon("replay", "--follow", "-", stdin_file=pipe)
    assert (done.returncode, done.stdout) == (0, "one two three.")


def test_json_of_a_pipe_names_no_session(specmon: Callable[..., Any], recording: Recording) -> None:
    with recording().open("rb") as pipe:
        done = specmon("replay", "--follow", "-", "--json", stdin_file=pipe)
    assert json.loads(done.stdout)["session"] is None


def test_replay_without_a_file_lists_the_users_recordings(
    cli: Cli, recording: Recording, private_home: dict[str, str]
) -> None:
    folder = Path(private_home["XDG_STATE_HOME"], "specmon", "recordings")
    folder.mkdir(parents=True)
    recording().rename(folder / "mine.session")
    (folder / "broken.session").write_bytes(b"")
    code, out, _ = cli("replay")
    assert code == 0
    assert "mine" in out
    assert "2026-11-29" in out
    assert "is empty" in out
    assert cli("replay", "--plain", "mine").out == "one two three."


@pytest.mark.parametrize("option", ["--check", "--dump", "--json", "--once", "--follow"])
def test_what_is_asked_of_a_recording_needs_one(cli: Cli, option: str) -> None:
    code, out, err = cli("replay", option)
    assert (code, out) == (2, "")
    assert f"{option} takes a FILE" in err


@pytest.mark.parametrize("beside", [["--check"], ["any.session"]])
def test_recover_refuses_what_it_would_ignore(cli: Cli, beside: list[str]) -> None:
    code, out, err = cli("replay", "--recover", *beside)
    assert (code, out) == (2, "")
    assert "--recover goes alone" in err


def test_size_is_refused_where_no_frame_is_printed(cli: Cli, recording: Recording) -> None:
    code, _, err = cli("replay", "--plain", "--size", "100x30", str(recording()))
    assert code == 2
    assert "--size goes with --once" in err


def test_recover_keeps_what_a_crashed_run_left(
    cli: Cli, private_home: dict[str, str], turn: Callable[..., list[AnyEvent]], recording: Recording
) -> None:
    state = Path(private_home["XDG_STATE_HOME"], "specmon")
    state.mkdir(parents=True)
    os.link(recording(), state / "1-0.spool")
    assert "1 more left behind" in cli("replay").out
    kept = cli("replay", "--recover").out.strip()
    assert Path(kept).parent == state / "recordings"
    assert cli("replay", "--plain", kept).out == "one two three."
    assert "Nothing was left behind" in cli("replay", "--recover").out


def test_redact_removes_text_and_keeps_counts(cli: Cli, recording: Recording, tmp_path: Path) -> None:
    original, copy = recording(), tmp_path / "copy.session"
    code, _, err = cli("redact", str(original), str(copy))
    assert code == 0
    assert "events" in err
    figures = json.loads(cli("replay", "--json", str(copy)).out)
    assert (figures["n_tokens"], figures["text"], figures["tokens"]) == (5, None, None)
    assert "not checkable: redacted" in cli("replay", "--check", str(copy)).err
    assert cli("redact", str(original), str(copy)).code == 2
    assert cli("redact", str(original), str(copy), "--force").code == 0


def test_shipped_recordings_are_listed_and_found_by_name(cli: Cli) -> None:
    listed = cli("replay").out
    assert "causes/k-too-deep" in listed
    assert "all identities hold" in cli("replay", "--check", "causes/k-too-deep").out


def test_recordings_side_by_side_are_drawn_as_a_race(cli: Cli, recording: Recording) -> None:
    path = recording()
    code, out, _ = cli("replay", "--once", "--size", "100x30", str(path), str(path))
    assert code == 0
    assert "REPLAY RACE" in out
    assert "OUTPUT B equal" in out


@pytest.mark.parametrize("option", ["--dump", "--check", "--follow"])
def test_some_things_are_done_with_one_recording_only(cli: Cli, recording: Recording, option: str) -> None:
    path = str(recording())
    code, _, err = cli("replay", option, path, path)
    assert code == 2
    assert "one recording" in err
    assert cli("replay", "--json", path, "-").code == 2


def test_json_of_several_recordings_is_a_races_and_what_differs(cli: Cli, recording: Recording) -> None:
    path = recording()
    code, out, err = cli("replay", "--json", str(path), str(path))
    figures = json.loads(out)
    own = json.loads(cli("replay", "--json", str(path)).out)
    assert (code, err) == (0, "")
    assert figures["lanes"] == [own, own]
    assert (figures["equal"], figures["first_difference"], figures["ratios"]) == (True, None, [1.0, 1.0])
    assert (figures["differs"], figures["turns"], figures["earlier"]) == ([], [1, 1], [])


def test_other_configuration_is_no_failure_but_no_ratio_either(cli: Cli) -> None:
    code, out, _ = cli("replay", "--json", "sd", "h200x2-ssd")
    figures = json.loads(out)
    assert code == 0
    assert figures["differs"] == ["prompt", "recipe", "max_new_tokens", "hardware"]
    assert (figures["equal"], figures["ratios"]) == (None, [1.0, None])


def test_table_of_several_recordings_has_every_turn(cli: Cli) -> None:
    code, out, err = cli("replay", "--plain", "causes/k-too-deep", "causes/weak-drafter")
    assert (code, err) == (0, "")
    assert [text for text in out.splitlines() if text.startswith("turn")] == ["turn 1", "turn 2"]
    assert out.count("No ratio: different prompt.") == 2
    assert "causes/weak-drafter.session" in out


def test_unpaired_turns_are_said(cli: Cli) -> None:
    _, out, err = cli("replay", "--json", "causes/k-too-deep", "sd")
    assert json.loads(out)["turns"] == [2, 1]
    assert "hold 2 and 1 turns: of each only the first is paired." in err


@pytest.mark.parametrize("option", ["--json", "--plain"])
def test_outputs_that_must_be_equal_and_are_not_fail(
    cli: Cli, recording: Recording, turn: Callable[..., list[AnyEvent]], option: str
) -> None:
    path = recording()
    wrong = [replace(e, emitted=(99, *e.emitted[1:])) if isinstance(e, Round) else e for e in turn()]
    path = path.rename(path.with_stem("right"))
    code, out, err = cli("replay", option, str(path), str(recording(wrong)))
    assert code == 1
    assert out
    assert "tokens differ from token 1 on" in err


def test_recordings_that_make_no_race_are_a_usage_error(cli: Cli, recording: Recording) -> None:
    code, out, err = cli("replay", "--json", "race", "race", str(recording()))
    assert (code, out) == (2, "")
    assert "7 lanes" in err
