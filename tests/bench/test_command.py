"""`specmon bench paired` from the command line: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specmon.core.bench.figures import load_figures
from specmon.core.engine.messages import LaneConfig
from specmon.core.errors import SpecmonError
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.commands.main import main

from .fake_engine import FakeEngine
from .turns import make_turn

Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run `specmon bench paired ARGS` on a scripted engine; gives exit code, stdout and stderr."""
    monkeypatch.setattr("specmon.tui.commands.bench_engine.BenchEngine", FakeEngine)
    monkeypatch.setattr("specmon.tui.commands.bench_paired.prepare", lambda configs: None)
    monkeypatch.setattr(
        "specmon.core.ceilings.measure_copies", lambda names, machine: dict.fromkeys(names, 2e10)
    )

    def run(
        *args: str, script: Callable[[LaneConfig, str, int], TurnMetrics] = steady
    ) -> tuple[int, str, str]:
        FakeEngine.script, FakeEngine.loaded = staticmethod(script), []  # type: ignore[assignment]
        code = main(["bench", "paired", "--prompts", "merge,rainbow", "--repeats", "2", *args])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def steady(config: LaneConfig, text: str, n: int) -> TurnMetrics:
    return make_turn(draft_len=0 if config.decoder == "ar" else config.draft_len)


def test_table_for_people_and_exit_code_0(bench: Bench) -> None:
    code, out, err = bench("--lane", "ar", "--lane", "sd:1")
    assert code == 0
    assert "B over A (SD K1 over AR) | **2.000×** [2.000, 2.000]" in out
    assert "control: A over itself | **1.000×**" in out
    assert "measuring: 12 of 12 requests" in err


def test_json_is_one_object_with_everything(bench: Bench) -> None:
    code, out, _ = bench("--lane", "ar", "--lane", "sd:1", "--json", "--no-control")
    report = json.loads(out)
    assert code == 0
    assert [lane["letter"] for lane in report["lanes"]] == ["A", "B"]
    assert report["pairs"][0]["decode"]["median"] == 2.0
    assert len(report["requests"]) == 8
    assert report["devices"] == [{"name": "cpu:0", "model": "a CPU", "read": 1e10, "copy": 2e10}]
    assert report["provenance"]["versions"] == {"torch": "2.13"}


def test_lanes_that_differ_give_no_ratio_and_exit_code_1(bench: Bench) -> None:
    def wrong(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        return make_turn([0, 1, 9 if config.decoder == "sd" else 2])

    code, out, err = bench("--lane", "ar", "--lane", "sd", script=wrong)
    assert code == 1
    assert "differ: no ratio" in out
    assert err.splitlines()[-1] == (
        "specmon: Lanes A and B differ on prompt merge, repeat 1, from token 2 on: 2 '<2>' and 9 '<9>'."
    )


def test_interruption_keeps_what_is_measured_says_so_and_exits_130(bench: Bench, tmp_path: Path) -> None:
    def interrupted(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        if n == 10:
            raise KeyboardInterrupt
        return steady(config, text, n)

    code, out, err = bench(
        "--lane", "ar", "--lane", "sd:1", "--no-control", "--out", str(tmp_path), script=interrupted
    )
    assert code == 130
    assert "Interrupted after 3 of 8 requests" in out
    assert "Interrupted: the report holds 3 of 8 requests." in err
    [written] = tmp_path.glob("*.json")
    assert json.loads(written.read_text())["interrupted"] is True


def test_interruption_before_anything_is_measured_prints_no_report(bench: Bench) -> None:
    def at_once(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        raise KeyboardInterrupt

    code, out, _ = bench(script=at_once)
    assert (code, out) == (130, "")


def test_a_request_that_fails_ends_the_run_with_what_was_measured_and_exit_code_1(bench: Bench) -> None:
    def failing(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        if n == 10:
            raise SpecmonError("The draft worker died.")
        return steady(config, text, n)

    code, out, err = bench("--lane", "ar", "--lane", "sd:1", "--no-control", script=failing)
    assert code == 1
    assert "3 of 8 requests" in out
    assert err.splitlines()[-1] == "specmon: The draft worker died."


def test_reports_and_figure_are_written_and_never_over_others(bench: Bench, tmp_path: Path) -> None:
    args = ("--lane", "ar", "--lane", "sd:1", "--out", str(tmp_path), "--name", "mine")
    assert bench(*args, "--figure", "h200x2.ssd.over.sd.bf16")[0] == 0
    assert {file.name[10:] for file in tmp_path.iterdir()} == {"-mine.json", "-mine.md", "figures.json"[10:]}
    figure = load_figures(tmp_path / "figures.json")["h200x2.ssd.over.sd.bf16"]
    assert (figure.value, figure.hardware) == (2.0, "cpu:0: a CPU")
    assert figure.note.endswith("-mine.md")

    code, out, err = bench(*args)
    assert (code, out) == (2, "")
    assert "exists. Give another --name, or --force." in err
    assert bench(*args, "--force")[0] == 0


def test_no_figure_comes_from_outputs_that_differ(bench: Bench, tmp_path: Path) -> None:
    def wrong(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        return make_turn([0, 1, 9 if config.decoder == "sd" else 2])

    args = ("--lane", "ar", "--lane", "sd", "--out", str(tmp_path), "--figure", "h200x2.ssd.over.sd.bf16")
    assert bench(*args, script=wrong)[0] == 1
    assert not (tmp_path / "figures.json").exists()


def test_no_figure_comes_from_outputs_that_cannot_be_compared(bench: Bench, tmp_path: Path) -> None:
    def other_recipe(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        return make_turn(recipe=config.recipe)

    lanes = ("--lane", "ar", "--lane", "ar,recipe=fp32")
    code, _, err = bench(
        *lanes, "--out", str(tmp_path), "--figure", "h200x2.ssd.over.sd.bf16", script=other_recipe
    )
    assert code == 1
    assert "is not written: lanes A and B were not found equal." in err
    assert not (tmp_path / "figures.json").exists()


def test_each_lane_is_measured_at_its_own_best_k(bench: Bench) -> None:
    best = {"sd": 3, "ssd": 2}

    def tuned(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        if config.decoder == "ar":
            return make_turn()
        return make_turn(round_ms=1.0 + abs(config.draft_len - best[config.decoder]))

    code, out, _ = bench("--choose-k", "1..4", "--json", script=tuned)
    assert code == 0
    report: dict[str, Any] = json.loads(out)
    lanes = {lane["letter"]: lane for lane in report["lanes"]}
    assert [lanes[letter]["config"]["draft_len"] for letter in "BC"] == [3, 2]
    assert [k["draft_len"] for k in lanes["B"]["tuned"]] == [1, 2, 3, 4]
    assert [(lane, config.draft_len) for lane, config in FakeEngine.loaded[-4:]] == [
        (0, 4),
        (1, 3),
        (2, 2),
        (3, 4),
    ]


@pytest.mark.embedded
def test_the_embedded_pair_is_measured_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    args = (
        "--lane",
        "ar",
        "--lane",
        "ssd:2",
        "--prompts",
        "merge",
        "--repeats",
        "1",
        "--max-new-tokens",
        "10",
    )
    assert main(["bench", "paired", *args, "--choose-k", "1..2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {row["n_tokens"] for row in report["requests"]} == {10}
    assert {row["reused_tokens"] for row in report["requests"]} == {0}
    assert [pair["equal"] for pair in report["pairs"]] == [True, True]
    assert report["devices"][0]["copy"] > 0


@pytest.mark.gpu
@pytest.mark.embedded
def test_random_weights_are_measured_on_a_gpu_with_and_without_graphs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs one CUDA device, found 0")
    lanes = ("--lane", "ar", "--lane", "sd:3", "--lane", "ar,graphs=off")
    setup = ("--target", "random:qwen2.5-0.5b", "--draft", "scripted:0.8", "--devices", "cuda:0")
    size = ("--prompts", "merge,letter", "--repeats", "1", "--max-new-tokens", "24", "--json")
    assert main(["bench", "paired", *lanes, *setup, *size]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {pair["equal"] for pair in report["pairs"]} == {True}
    assert [lane["label"] for lane in report["lanes"]][:3] == [
        "AR · graphs on",
        "SD K3 · graphs on",
        "AR · graphs off",
    ]
    assert all(lane["sol_fraction"] for lane in report["lanes"])
