"""Wrong calls: one sentence on stderr, nothing on stdout, the right exit code, no traceback unasked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROMPT = ("-p", "hello")

BAD_CALLS: dict[str, tuple[tuple[str, ...], str]] = {
    "empty prompt": (("run", "-p", ""), "prompt is empty"),
    "blank prompt": (("run", "-p", " \n\t"), "prompt is empty"),
    "empty stdin": (("run",), "prompt is empty"),
    "no prompt for a race": (("race", "-p", ""), "prompt is empty"),
    "two prompts": (("run", *PROMPT, "--prompt-file", "x.txt"), "Both --prompt and --prompt-file"),
    "missing prompt file": (("run", "--prompt-file", "no/such.txt"), "No such file"),
    "folder as prompt file": (("run", "--prompt-file", "."), "Is a directory"),
    "draft_len 0": (("run", *PROMPT, "--draft-len", "0"), "--draft-len is 0"),
    "negative draft_len": (("run", *PROMPT, "--draft-len", "-3"), "--draft-len is -3"),
    "draft_len not a number": (("run", *PROMPT, "--draft-len", "four"), "--draft-len"),
    "unknown decoder": (("run", *PROMPT, "--decoder", "medusa"), "no decoder 'medusa'"),
    "graphs neither on nor off": (("run", *PROMPT, "--graphs", "no"), "takes on or off"),
    "fan-out of 0": (("run", *PROMPT, "--fan-out", "0"), "whole numbers of 1 or more"),
    "fan-out not numbers": (("run", *PROMPT, "--fan-out", "a,b"), "whole numbers of 1 or more"),
    "fan-out with a hole": (("run", *PROMPT, "--fan-out", "1,,2"), "whole numbers of 1 or more"),
    "fan-out auto of nothing": (("run", *PROMPT, "--fan-out", "auto:0"), "a budget is 1 branch or more"),
    "fan-out auto of words": (("run", *PROMPT, "--fan-out", "auto:many"), "a budget is 1 branch or more"),
    "fan-out too short": (("run", *PROMPT, "--fan-out", "5,4,3"), "takes 1 or 5"),
    "fan-out too long": (("run", *PROMPT, "--draft-len", "2", "--fan-out", "5,4,3,2"), "takes 1 or 3"),
    "draft_len of many digits": (("run", *PROMPT, "--draft-len", "9" * 30), "does not fit into 64 bits"),
    "draft_len beyond a pass": (("run", *PROMPT, "--draft-len", "99"), "draft_len 99 cannot work"),
    "fan-out of many digits": (("run", *PROMPT, "--fan-out", "9" * 5000), "whole numbers of 1 or more"),
    "fan-out auto of many digits": (("run", *PROMPT, "--fan-out", "auto:" + "9" * 5000), "a budget is 1"),
    "fan-out auto of too many": (("run", *PROMPT, "--fan-out", "auto:999"), "budget of 999 branches"),
    "unknown recipe": (("run", *PROMPT, "--recipe", "q5"), "no recipe 'q5'"),
    "unknown backend": (("run", *PROMPT, "--backend", "cuda"), "no backend 'cuda'"),
    "script without accuracy": (("run", *PROMPT, "--draft", "scripted:x"), "gives no accuracy"),
    "n-grams of a number": (("run", *PROMPT, "--draft", "ngram:5"), "ngram takes nothing after it"),
    "size of many digits": (("run", *PROMPT, "--once", "--size", "9" * 5000 + "x48"), "columns and rows"),
    "seed of many digits": (("run", *PROMPT, "--seed", "9" * 30), "--seed does not fit into 64 bits"),
    "no new tokens": (("run", *PROMPT, "--max-new-tokens", "0"), "--max-new-tokens is 0"),
    "negative temperature": (("run", *PROMPT, "--temperature", "-1"), "--temperature is -1"),
    "temperature nan": (("run", *PROMPT, "--temperature", "nan"), "--temperature is nan"),
    "top-p 0": (("run", *PROMPT, "--top-p", "0"), "--top-p is 0"),
    "top-p above 1": (("run", *PROMPT, "--top-p", "1.5"), "--top-p is 1.5"),
    "top-k below 0": (("run", *PROMPT, "--top-k", "-1"), "--top-k is -1"),
    "empty stop": (("run", *PROMPT, "--stop", ""), "--stop is empty"),
    "empty target": (("run", *PROMPT, "--target", ""), "--target is empty"),
    "empty devices": (("run", *PROMPT, "--devices", " "), "--devices is empty"),
    "recording into no folder": (("run", *PROMPT, "--record", "no/such/a.session"), "no/such"),
    "lane and lanes": (
        ("race", *PROMPT, "--lanes", "ar,sd", "--lane", "ar", "--lane", "sd"),
        "Use one of them",
    ),
    "one lane in words": (("race", *PROMPT, "--lane", "sd:4,draft-nodes=15"), "names 1 lane, but 2 to 4"),
    "five lanes in words": (("race", *PROMPT, *["--lane", "ar"] * 5), "names 5 lanes, but 2 to 4"),
    "lane with another word": (
        ("race", *PROMPT, "--lane", "ar", "--lane", "sd,colour=red"),
        "none of decoder,",
    ),
    "one lane": (("race", *PROMPT, "--lanes", "ar"), "two to four lanes"),
    "five lanes": (("race", *PROMPT, "--lanes", "ar,ar,ar,ar,ar"), "two to four lanes"),
    "unknown lane": (("race", *PROMPT, "--lanes", "ar,x"), "no decoder 'x'"),
    "lane with a word": (("race", *PROMPT, "--lanes", "ar,sd:six"), "like sd:6"),
    "lane of many digits": (("race", *PROMPT, "--lanes", "ar,sd:" + "9" * 5000), "like sd:6"),
    "lane that drafts too much": (("race", *PROMPT, "--lanes", "ar,sd:99"), "draft_len 99 cannot work"),
    "lane that drafts nothing": (("race", *PROMPT, "--lanes", "ar,sd:0"), "--draft-len is 0"),
    "unknown option": (("run", "--frobnicate"), "No such option"),
    "unknown command": (("frobnicate",), "No such command"),
    "option of no command": (("--frobnicate",), "No such option"),
    "unknown model to fetch": (("models", "fetch", "gpt-5"), "no model 'gpt-5'"),
    "missing source": (("models", "fetch", "--from", "no.whl"), "no file no.whl"),
    "missing model to describe": (("models", "info", "no-such-model"), "no-such-model"),
    "a comparison of one": (("bench", "paired", "--lane", "ar"), "names 1 lane, but"),
    "lane of unknown words": (
        ("bench", "paired", "--lane", "ar", "--lane", "colour=blue"),
        "none of decoder",
    ),
    "draft length said twice": (
        ("bench", "paired", "--lane", "ar", "--lane", "sd:4,draft-len=5"),
        "draft-len twice",
    ),
    "profile of two devices": (("bench", "profile", "--device", "cpu:0,cpu:1"), "is of one device"),
    "report into no folder": (("bench", "profile", "--out", ""), "--out is empty"),
    "no repeats": (("bench", "paired", "--repeats", "0"), "--repeats is 0"),
    "unknown benchmark prompt": (("bench", "paired", "--prompts", "queue"), "--prompts has 'queue'"),
    "draft lengths not numbers": (("bench", "paired", "--choose-k", "few"), "--choose-k is 'few'"),
    "figure without a goal": (("bench", "paired", "--figure", "speed"), "takes h200x2.ssd.over.sd.bf16"),
    "profile of no rows": (("bench", "profile", "--rows", "0"), "--rows is '0'"),
    "profile of no passes": (("bench", "profile", "--passes", "0"), "--passes is 0"),
    "redact without an output": (("redact", "a.session"), "Missing argument"),
    "check and dump": (("replay", "a.session", "--check", "--dump"), "exclude each other"),
    "no-times alone": (("replay", "a.session", "--no-times"), "goes with --dump"),
    "missing recording": (("replay", "no-such.session"), "does not exist"),
}


@pytest.mark.parametrize(("args", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_wrong_call_is_one_sentence_and_exit_code_2(
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    args: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(*args)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("specmon: ")
    assert err.count("\n") == 1


def test_prompt_that_is_not_text_is_refused(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert cli("run", "--prompt-file", str(tmp_path / "latin.txt")).code == 2
    code, _, err = cli("run", stdin=b"\xff\xfe")
    assert (code, "stdin is not UTF-8" in err) == (2, True)


def test_existing_recording_is_refused_before_anything_is_loaded(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    there = tmp_path / "a.session"
    there.write_bytes(b"precious")
    code, _, err = cli("run", "-p", "hello", "--record", str(there))
    assert (code, "--force" in err) == (2, True)
    assert there.read_bytes() == b"precious"


def test_folder_that_takes_no_file_is_refused_before_anything_is_loaded(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def loaded(*_: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("specmon.tui.commands.run.prepare", loaded)
    for record in ("/proc/foo.session", "/proc"):
        code, _, err = cli("run", "-p", "hello", "--json", "--record", record)
        assert (code, "the folder /proc takes no new file" in err) == (2, True)
    assert cli("run", "-p", "hello", "--json", "--record", str(tmp_path / "a.session")).code == 1
    assert not list(tmp_path.glob("*"))


def test_hostile_argument_cannot_command_the_terminal(cli: Callable[..., Any]) -> None:
    code, _, err = cli("run", "-p", "hello", "--decoder", "\x1b[2J\nx")
    assert code == 2
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_debug_shows_the_traceback_and_the_same_sentence(cli: Callable[..., Any]) -> None:
    code, _, err = cli("run", "-p", "", "--debug")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("specmon: The prompt is empty")


def test_missing_engine_says_what_to_install(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmon.tui.commands.doctor.ENGINE_PACKAGES", ("no_such_package",))
    code, out, err = cli("run", "-p", "hello")
    assert (code, out) == (1, "")
    assert "missing: no_such_package" in err
    assert "pip install 'specmon[engine]'" in err
