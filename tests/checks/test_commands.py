"""`specmon check` from the command line: what it prints, notes and writes, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_models import TinyModels

from specmon.core.checks import quality
from specmon.core.checks.agreement import Agreement, PatternResult
from specmon.core.checks.quality import QualityBound
from specmon.tui.commands import options
from specmon.tui.commands.bench_lanes import lane_checks, settle_lanes
from specmon.tui.commands.main import main

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny: TinyModels
) -> Check:
    """Run `specmon check KIND ARGS` on a tiny target, with a state folder of its own; gives exit code, stdout, stderr."""
    monkeypatch.setattr("specmon.core.paths.state_dir", lambda: tmp_path / "state")
    monkeypatch.setattr("specmon.tui.commands.check_run.this_command", lambda: "specmon check")

    def run(kind: str, *args: str) -> tuple[int, str, str]:
        code = main(["check", kind, "--target", str(tiny.target()), *args])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Agreement without decoding: each pattern's fault, by its number, the last one for all that follow."""
    faults: list[str | None] = [None]

    def results(self: Agreement, lanes: list[Any]) -> Any:
        patterns = [(lane, pattern) for lane in lanes for pattern in lane.patterns]
        for number, (lane, pattern) in enumerate(patterns):
            fault = faults[min(number, len(faults) - 1)]
            if fault == "ctrl+c":
                raise KeyboardInterrupt
            yield PatternResult(
                decoder=lane.config.decoder,
                draft_len=lane.config.draft_len,
                fan_out=None,
                scripted=lane.scripted,
                pattern=pattern.name,
                n_tokens=24,
                rounds=8,
                hits=None,
                fault=fault,
                draft_nodes=lane.config.draft_nodes,
            )

    monkeypatch.setattr(Agreement, "run", results)
    return faults


def agreement(check: Check, tiny: TinyModels, *args: str) -> tuple[int, str, str]:
    return check("agreement", "--draft", str(tiny.draft()), "--devices", "cpu:0", *args)


def passed(
    tiny: TinyModels,
    decoder: str = "ssd",
    recipe: str = "bf16",
    draft: Path | None = None,
    draft_nodes: int = 0,
) -> Any:
    """The checks that a benchmark finds for such a lane."""
    config = options.lane_config(
        decoder=decoder,
        target=str(tiny.target()),
        draft=str(draft or tiny.draft()),
        recipe=recipe,
        devices="cpu:0",
        draft_len=2,
        fan_out="1",
        draft_nodes=draft_nodes,
    )
    return lane_checks(settle_lanes([config]))[0]


def test_agreement_prints_a_line_a_pattern_and_the_count_and_is_noted(
    check: Check, tiny: TinyModels, quick: list[str | None]
) -> None:
    assert passed(tiny) == ()

    code, out, err = agreement(check, tiny)

    assert code == 0
    assert "| SD K15, scripted | 2 of 4 accepted | 24 | 8 | n/a | equal |" in out
    assert "66 of 66 patterns give AR's tokens." in out
    assert "checking: 66 of 66 patterns" in err
    assert passed(tiny) == passed(tiny, "ar") == ("agreement",)
    assert passed(tiny, draft=tiny.stranger()) == passed(tiny, recipe="fp32") == ()


def test_agreement_of_a_block_drafter_is_of_sd(
    check: Check, tiny: TinyModels, quick: list[str | None]
) -> None:
    code, out, _ = check("agreement", "--draft", str(tiny.block()), "--devices", "cpu:0")

    assert code == 0
    assert "| SD K4 |" in out
    assert "SSD" not in out
    assert passed(tiny, "sd", draft=tiny.block()) == ("agreement",)


def test_agreement_of_trees_is_of_sd_and_speaks_for_trees_alone(
    check: Check, tiny: TinyModels, quick: list[str | None]
) -> None:
    code, out, _ = agreement(check, tiny, "--draft-nodes", "9")

    assert code == 0
    assert "| SD K4 tree 9 | prose |" in out
    assert "| SD K15, scripted | 2 of 4 accepted |" in out
    assert "SSD" not in out
    assert passed(tiny, "sd", draft_nodes=7) == ("agreement",)
    assert passed(tiny, "sd") == passed(tiny, "ssd") == ()


def test_a_difference_ends_with_1_names_the_place_and_is_no_longer_noted(
    check: Check, tiny: TinyModels, quick: list[str | None]
) -> None:
    agreement(check, tiny)
    quick[:] = [None, "round 3, position 17: 9 'a' where AR has 8 'b'", None]

    code, out, err = agreement(check, tiny)

    assert code == 1
    assert "65 of 66 patterns give AR's tokens." in out
    assert err.splitlines()[-1] == (
        "specmon: SD K15, scripted, 1 of 4 accepted: round 3, position 17: 9 'a' where AR has 8 'b'."
    )
    assert passed(tiny) == ()


def test_interruption_gives_what_was_found_and_notes_nothing(
    check: Check, tiny: TinyModels, quick: list[str | None], tmp_path: Path
) -> None:
    quick[:] = [None, None, "ctrl+c"]

    code, out, err = agreement(check, tiny, "--json", "--out", str(tmp_path / "out"))

    report = json.loads(out)
    assert code == 130
    assert (len(report["patterns"]), report["n_planned"], report["passed"]) == (2, 66, False)
    assert "Broken off: the report holds 2 of 66 lines." in err
    assert {file.name[10:] for file in (tmp_path / "out").iterdir()} == {
        "-check-agreement-interrupted.json",
        "-check-agreement-interrupted.md",
    }
    assert passed(tiny) == ()


def test_reference_gives_json_and_is_noted_for_each_recipe(check: Check, tiny: TinyModels) -> None:
    code, out, err = check("reference", "--device", "cpu:0", "--recipe", "fp32", "--json")

    report = json.loads(out)
    assert code == 0
    assert [run["path"] for run in report["runs"]] == ["prefill", "decode"] * 3
    assert (report["passed"], report["n_tokens"], report["rounding"]) == (True, 269, None)
    assert "it/s" not in err  # no progress bar of another
    assert passed(tiny, recipe="fp32") == ("reference",)
    assert passed(tiny, recipe="bf16") == ()


def test_quality_is_noted_for_the_whole_text_alone(
    check: Check, tiny: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quality.BOUNDS, "bf16", QualityBound(perplexity=2.0, top1=0.5))
    code, out, err = check("quality", "--device", "cpu:0", "--tokens", "40")
    assert code == 0
    assert "q4 is left out: " in err
    assert "| bf16 | reference-2 | " in out
    assert passed(tiny) == ()

    assert check("quality", "--device", "cpu:0", "--recipe", "bf16")[0] == 0
    assert passed(tiny) == ("quality",)


def test_quality_beyond_its_bound_ends_with_1(
    check: Check, tiny: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quality.BOUNDS, "bf16", QualityBound(perplexity=0.5, top1=0.5))

    code, out, err = check("quality", "--device", "cpu:0", "--recipe", "bf16", "--tokens", "40")

    assert code == 1
    assert "above 0.5**" in out
    assert err.splitlines()[-1].startswith("specmon: bf16: its perplexity is ")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            ("reference", "--device", "cpu:0,cpu:1"),
            "--device is 'cpu:0,cpu:1', but this check is of one device.",
        ),
        (
            ("reference", "--recipe", "q4"),
            "--recipe has 'q4', but Hugging Face is compared with in fp32 and bf16.",
        ),
        (("quality", "--recipe", "fp32"), "--recipe has fp32, which is what the others are compared with."),
        (
            ("quality", "--recipe", "int3"),
            "--recipe has 'int3', but it takes auto, q4, fp8, fp8-bf16-head, bf16.",
        ),
        (("quality", "--tokens", "1"), "--tokens is 1, but it must be 2 or more."),
        (
            ("agreement", "--draft-len", "0"),
            "--draft-len is 0, but a round drafts at least 1 token. The decoder ar drafts none.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(check: Check, args: tuple[str, ...], sentence: str) -> None:
    code, out, err = check(*args)

    assert (code, out) == (2, "")
    assert err == f"specmon: {sentence}\n"


def test_a_target_that_is_not_there_and_one_that_hugging_face_cannot_have_are_refused(
    check: Check,
) -> None:
    for kind in ("agreement", "reference", "quality"):
        code, out, err = check(kind, "--target", "nowhere")
        assert (code, out) == (2, "")
        assert err.splitlines()[-1].startswith("specmon: There is no model 'nowhere' here.")
