"""`specmon bench paired` from the command line: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.bench.figures import load_figures
from specmon.core.engine.messages import LaneConfig
from specmon.core.errors import SpecmonError
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.commands.main import main

from .fake_engine import FakeEngine, agreement_of_ar, settled_on
from .turns import make_turn

Bench = Callable[..., tuple[int, str, str]]
TWO_H200S = ("NVIDIA H200", "NVIDIA H200")
RATIO = "h200x2.ssd.over.sd.bf16"
OF_RATIO = (
    *("--target", "random:qwen2.5-7b", "--draft", "scripted:0.78@random:qwen2.5-0.5b"),
    *("--lane", "sd", "--lane", "ssd", "--choose-k", "1..3", "--prompts", "", "--no-control"),
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run `specmon bench paired ARGS` on a scripted engine; gives exit code, stdout and stderr."""
    monkeypatch.setattr("specmon.tui.commands.bench_engine.BenchEngine", FakeEngine)
    monkeypatch.setattr("specmon.tui.commands.bench_paired.prepare", lambda configs: None)
    monkeypatch.setattr("specmon.tui.commands.bench_paired.settle_lanes", settled_on(*TWO_H200S))
    monkeypatch.setattr("specmon.tui.commands.bench_paired.lane_checks", agreement_of_ar)
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


def twice_as_fast(config: LaneConfig, text: str, n: int) -> TurnMetrics:
    """SSD over SD is 2."""
    return make_turn(round_ms=1.0 if config.decoder == "ssd" else 2.0)


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
    args = (*OF_RATIO, "--out", str(tmp_path), "--name", "mine")
    assert bench(*args, "--figure", RATIO, script=twice_as_fast)[0] == 0
    assert {file.name[10:] for file in tmp_path.iterdir()} == {"-mine.json", "-mine.md", "figures.json"[10:]}
    figure = load_figures(tmp_path / "figures.json")[RATIO]
    assert (figure.value, figure.hardware) == (2.0, "cpu:0: a CPU")
    assert figure.note.endswith("-mine.md")

    code, out, err = bench(*args)
    assert (code, out) == (2, "")
    assert "exists. Give another --name, or --force." in err
    assert bench(*args, "--force")[0] == 0


def test_no_figure_comes_from_outputs_that_differ(bench: Bench, tmp_path: Path) -> None:
    def wrong(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        return make_turn([0, 1, 9 if config.decoder == "ssd" else 2])

    assert bench(*OF_RATIO, "--out", str(tmp_path), "--figure", RATIO, script=wrong)[0] == 1
    assert not (tmp_path / "figures.json").exists()


def test_no_figure_comes_from_outputs_that_cannot_be_compared(bench: Bench, tmp_path: Path) -> None:
    def other_recipe(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        return make_turn(recipe=config.decoder)

    code, _, err = bench(*OF_RATIO, "--out", str(tmp_path), "--figure", RATIO, script=other_recipe)
    assert code == 1
    assert "is not written: lanes A and B were not found equal." in err
    assert not (tmp_path / "figures.json").exists()


@pytest.mark.parametrize(
    ("models", "recipe", "args"),
    [
        (("a CPU", "a CPU"), "bf16", ()),
        (("NVIDIA H200",), "bf16", ()),
        (("NVIDIA H200", "NVIDIA H100"), "bf16", ()),
        (TWO_H200S, "fp8", ()),
        (TWO_H200S, "bf16", ("--target", "smollm2")),
        (TWO_H200S, "bf16", ("--draft", "ngram")),
        (TWO_H200S, "bf16", ("--prompts", "merge")),
        (TWO_H200S, "bf16", ("--choose-k", "1..11")),
        (TWO_H200S, "bf16", ("--choose-k", "4")),
        (TWO_H200S, "bf16", ("--choose-k", "")),
        (TWO_H200S, "bf16", ("--lane", "sd", "--figure", f"{RATIO}=C/A")),
        (TWO_H200S, "bf16", ("--lane", "ssd,target=smollm2", "--figure", f"{RATIO}=C/A")),
    ],
)
def test_a_figure_of_another_run_than_its_name_says_is_refused_before_anything_is_measured(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    models: tuple[str, ...],
    recipe: str,
    args: tuple[str, ...],
) -> None:
    monkeypatch.setattr("specmon.tui.commands.bench_paired.settle_lanes", settled_on(*models, recipe=recipe))
    folder = tmp_path / "new"
    code, out, err = bench(*OF_RATIO, "--out", str(folder), "--figure", RATIO, *args)
    assert (code, out, FakeEngine.loaded) == (2, "", [])
    assert not folder.exists()
    assert err == (
        f"specmon: --figure {RATIO} needs SSD over SD each at its own best of several K up to 10, --target "
        "random:qwen2.5-7b --draft scripted:0.78@random:qwen2.5-0.5b in bf16 on 2 H200s, on all evaluation prompts.\n"
    )


def test_an_interruption_while_k_is_chosen_keeps_what_was_tried(bench: Bench, tmp_path: Path) -> None:
    def interrupted(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        if n == 20:  # 7 requests a K: of the third one some are missing
            raise KeyboardInterrupt
        return steady(config, text, n)

    args = ("--lane", "ar", "--lane", "sd", "--choose-k", "1..4", "--out", str(tmp_path))
    code, out, err = bench(*args, script=interrupted)
    assert code == 130
    assert "**Interrupted while K was chosen: nothing was compared.**" in out
    assert "| B SD K4 | n/a | K1 1.00, K2 0.75 |" in out
    [written] = tmp_path.glob("*-paired-interrupted.json")
    [lane] = json.loads(written.read_text())["tuning"]
    assert [tried["draft_len"] for tried in lane["tried"]] == [1, 2]
    assert f"Written to {written}" in err


def test_a_run_that_is_broken_off_never_replaces_a_report(bench: Bench, tmp_path: Path) -> None:
    def interrupted(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        if n == 10:
            raise KeyboardInterrupt
        return steady(config, text, n)

    args = ("--lane", "ar", "--lane", "sd:1", "--out", str(tmp_path), "--force")
    assert bench(*args)[0] == 0
    [whole] = tmp_path.glob("*.json")
    before = whole.read_bytes()
    for suffix in ("-interrupted", "-interrupted-2"):
        code, _, err = bench(*args, script=interrupted)
        assert (code, f"{whole.stem}{suffix}.json" in err) == (130, True)
    assert whole.read_bytes() == before
    assert json.loads(whole.with_stem(f"{whole.stem}-interrupted").read_text())["interrupted"] is True


def test_a_lane_that_cannot_work_is_refused_before_any_is_loaded(
    tiny: TinyModels, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr("specmon.tui.commands.bench_engine.BenchEngine", started)
    lanes = ["bench", "paired", "--target", str(tiny.target()), "--draft", "ngram", "--lane", "sd"]
    for lane, message in (
        ("sd,recipe=q4", "holds no Q4_1 weights"),
        ("sd,devices=cuda:77", "There is no device 'cuda:77'"),
        ("sd,draft=random:qwen2.5-0.5b", "The draft qwen2.5-0.5b (random) has 151936 tokens, the target"),
        ("ar,target=no-such-model", "There is no model 'no-such-model'"),
    ):
        assert main([*lanes, "--lane", lane, "--choose-k", "1..4"]) in (1, 2)
        assert message in capsys.readouterr().err


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
    assert [(lane["letter"], lane["chosen"]) for lane in report["tuning"]] == [("B", 3), ("C", 2)]
    assert [k["draft_len"] for k in report["tuning"][0]["tried"]] == [1, 2, 3, 4]
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
