"""`specmon bench draft-len` from the command line: what it measures, prints and writes, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from specmon.core.bench.figures import load_figures
from specmon.core.bench.prompts import bench_prompts
from specmon.core.engine.messages import LaneConfig
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.commands.bench_draft_len_choices import decoders_of_machine, parse_decoders
from specmon.tui.commands.main import main

from .fake_engine import HEADER, FakeEngine, agreement_of_ar, settled_on
from .turns import timed_turn


class TwoDevices(FakeEngine):
    header = msgspec.structs.replace(HEADER, devices=HEADER.devices * 2)


Bench = Callable[..., tuple[int, str, str]]
RATIO, FRACTION, TAU = "h200x2.ssd.over.sd.bf16", "h200x2.ssd.model_fraction", "embedded.draft.tau_k4"
TWO_H200S = ("NVIDIA H200", "NVIDIA H200")
OF_RATIO = ("--target", "random:qwen2.5-7b", "--draft", "scripted:0.78@random:qwen2.5-0.5b")


def by_hand(config: LaneConfig, text: str, n: int) -> TurnMetrics:
    """K 2 is best for both: SSD over SD is 7 ÷ 6.25, predicted 1.2 (see test_draft_len.py)."""
    k = 0 if config.decoder == "ar" else config.draft_len
    return timed_turn(config.decoder, k, verify_ms=2.5 if k == 3 else 1.0)


def wrong(config: LaneConfig, text: str, n: int) -> TurnMetrics:
    return timed_turn("ssd", 2, [9] * 13) if config.decoder == "ssd" else by_hand(config, text, n)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run `specmon bench draft-len ARGS` at K 1 to 3 on a scripted engine; gives exit code, stdout and stderr."""
    monkeypatch.setattr("specmon.tui.commands.bench_engine.BenchEngine", TwoDevices)
    monkeypatch.setattr("specmon.tui.commands.bench_draft_len.prepare", lambda configs: None)
    monkeypatch.setattr(
        "specmon.tui.commands.bench_draft_len.decoders_of_machine", lambda devices: ("sd", "ssd")
    )
    monkeypatch.setattr("specmon.tui.commands.bench_draft_len.settle_lanes", settled_on(*TWO_H200S))
    monkeypatch.setattr("specmon.tui.commands.bench_draft_len.lane_checks", agreement_of_ar)
    monkeypatch.setattr(
        "specmon.core.ceilings.measure_copies", lambda names, machine: dict.fromkeys(names, 2e10)
    )

    def run(
        *args: str, script: Callable[[LaneConfig, str, int], TurnMetrics] = by_hand
    ) -> tuple[int, str, str]:
        FakeEngine.script, FakeEngine.loaded = staticmethod(script), []  # type: ignore[assignment]
        code = main(["bench", "draft-len", "--draft-len", "1..3", *args])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_k_is_chosen_on_tuning_prompts_and_the_ratio_measured_on_evaluation_prompts(bench: Bench) -> None:
    code, out, err = bench("--prompts", "merge,rainbow", "--repeats", "2")
    assert code == 0
    assert "- SD is fastest at K 2, 2.14 times as fast as AR (its parts predict K 2)." in out
    assert (
        "- SSD K2 over SD K2: **1.120×** [1.120, 1.120], predicted 1.200×, measured ÷ predicted 0.933.\n"
        in out
    )
    assert "## Sweep: queue, boxes, lighthouse\n" in out
    assert "## Evaluation: merge, rainbow\n" in out
    assert "sweeping: 42 of 42 requests" in err  # 7 settings, 3 prompts, twice
    assert "evaluating: 12 of 12 requests" in err
    assert [(lane, config.decoder, config.draft_len) for lane, config in FakeEngine.loaded] == [
        (0, "ar", 3),
        (1, "sd", 3),
        (2, "ssd", 3),
    ]


def test_json_is_one_object_with_rows_and_summary(bench: Bench) -> None:
    code, out, _ = bench("--prompts", "merge", "--json")
    report = json.loads(out)
    assert code == 0
    assert [row["draft_len"] for row in report["sweep"]["rows"]] == [0, 1, 2, 3, 1, 2, 3]
    assert [(row["decoder"], row["draft_len"]) for row in report["evaluation"]["rows"]] == [
        ("ar", 0),
        ("sd", 2),
        ("ssd", 2),
    ]
    assert report["summary"]["best"][1] == {
        "decoder": "ssd",
        "draft_len": 2,
        "alone": 2,
        "predicted": 2,
    }
    assert report["summary"]["evaluation"]["measured"]["median"] == pytest.approx(1.12)
    assert report["config"]["target"] == "smollm2"


def test_a_sweep_alone_tries_every_k_on_the_prompts_asked_for(bench: Bench) -> None:
    code, out, _ = bench("--sweep-only", "--prompts", "merge", "--decoder", "sd", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["sweep"]["prompts"] == ["merge"]
    assert [row["decoder"] for row in report["sweep"]["rows"]] == ["ar", "sd", "sd", "sd"]
    assert report["evaluation"] is None
    assert report["summary"]["sweep"] is None


def test_tokens_that_differ_end_the_run_after_the_sweep_with_exit_code_1(
    bench: Bench, tmp_path: Path
) -> None:
    code, out, err = bench(*OF_RATIO, "--out", str(tmp_path), "--figure", RATIO, script=wrong)
    assert code == 1
    assert "tokens differ" in out
    assert "Evaluation" not in out
    assert err.splitlines()[-1].startswith("specmon: Lanes AR and SSD K1 differ on prompt queue, repeat 1,")
    assert not (tmp_path / "figures.json").exists()


def test_an_interruption_keeps_what_is_measured_and_chooses_no_k(bench: Bench) -> None:
    def interrupted(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        if n == 12:  # after 7 warm-ups, 2 requests
            raise KeyboardInterrupt
        return by_hand(config, text, n)

    code, out, err = bench(script=interrupted)
    assert code == 130
    assert "Interrupted after 2 of 21 requests" in out
    assert "fastest" not in out
    assert "Interrupted: the report holds 2 of the last 21 requests." in err


def test_an_interruption_before_anything_is_measured_prints_no_report(bench: Bench) -> None:
    def at_once(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        raise KeyboardInterrupt

    assert bench(script=at_once)[:2] == (130, "")


def test_reports_and_figures_are_written_where_they_are_asked_for(bench: Bench, tmp_path: Path) -> None:
    args = (*OF_RATIO, "--out", str(tmp_path))
    assert bench(*args)[0] == 0
    assert {file.name[10:] for file in tmp_path.iterdir()} == {"-draft-len.json", "-draft-len.md"}
    assert bench(*args, "--force", "--figure", f"{RATIO},{FRACTION}")[0] == 0
    figures = load_figures(tmp_path / "figures.json")
    assert {name: figure.value for name, figure in figures.items()} == {RATIO: 1.12, FRACTION: 0.9333}
    assert figures[RATIO].note.endswith("-draft-len.md")


def test_tau_of_the_embedded_pair_is_a_figure_of_a_sweep_over_all_evaluation_prompts(
    bench: Bench, tmp_path: Path
) -> None:
    def drafted(config: LaneConfig, text: str, n: int) -> TurnMetrics:
        k = 0 if config.decoder == "ar" else config.draft_len
        return timed_turn(config.decoder, k, range(61))

    args = ("--draft-len", "4", "--decoder", "sd", "--sweep-only", "--out", str(tmp_path))
    assert bench(*args, "--figure", TAU, script=drafted)[0] == 0
    assert load_figures(tmp_path / "figures.json")[TAU].value == 5.0
    assert len([prompt for prompt in bench_prompts() if prompt.set == "evaluation"]) == 8
    for missing in (
        ("--prompts", "merge"),
        ("--draft-len", "1..3"),
        ("--draft", "eagle3"),
        ("--decoder", "ssd"),
    ):
        code, _, err = bench(*args, "--figure", TAU, "--force", *missing)
        assert (code, f"--figure {TAU} needs" in err) == (2, True), missing


@pytest.mark.parametrize(
    ("models", "recipe", "args"),
    [
        (("a CPU", "a CPU"), "bf16", ()),
        (("NVIDIA H200",), "bf16", ()),
        (TWO_H200S, "q4", ()),
        (TWO_H200S, "bf16", ("--target", "smollm2")),
        (TWO_H200S, "bf16", ("--draft", "auto")),
        (TWO_H200S, "bf16", ("--draft-len", "1..11")),
        (TWO_H200S, "bf16", ("--prompts", "merge")),
        (TWO_H200S, "bf16", ("--decoder", "sd")),
        (TWO_H200S, "bf16", ("--sweep-only",)),
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
    settle = settled_on(*models, recipe=recipe)
    monkeypatch.setattr("specmon.tui.commands.bench_draft_len.settle_lanes", settle)
    for goal in (RATIO, FRACTION):
        code, out, err = bench(*OF_RATIO, "--out", str(tmp_path), "--figure", goal, *args)
        assert (code, out, FakeEngine.loaded) == (2, "", [])
        assert f"--figure {goal} needs SSD over SD" in err
        assert err.count("\n") == 1


def test_graphs_are_an_option_here_too(bench: Bench) -> None:
    code, out, _ = bench("--prompts", "merge", "--graphs", "off")
    assert (code, "graphs off" in out.splitlines()[0]) == (0, True)
    assert {config.graphs for _, config in FakeEngine.loaded} == {False}


def test_a_figure_of_ssd_is_refused_where_ssd_is_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("specmon.tui.commands.bench_draft_len.decoders_of_machine", lambda devices: ("sd",))
    code, _, err = bench(*OF_RATIO, "--out", str(tmp_path), "--figure", RATIO)
    assert (code, FakeEngine.loaded) == (2, [])
    assert "needs SSD over SD" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--draft-len", "0..3"), "--draft-len is '0..3', but a draft has 1 to 15 tokens."),
        (
            ("--draft-len", "4..1"),
            "--draft-len is '4..1', but a range goes from the smaller number to the greater",
        ),
        (("--draft-len", "few"), "--draft-len is 'few', but it takes a range like 1..10"),
        (("--draft-len", ""), "--draft-len is ''"),
        (("--fan-out", "3,2,1,1"), "needs a fan-out that fits every K"),
        (("--fan-out", "3,2"), "takes 1 or 4"),
        (("--decoder", "ar"), "--decoder has 'ar', but it takes sd, ssd or sd,ssd"),
        (("--decoder", "sd,x"), "--decoder has 'x'"),
        (("--repeats", "0"), "--repeats is 0"),
        (("--prompts", "queue"), "--prompts has 'queue'"),
        (("--figure", "cpu.ar.over.hf"), "--figure has 'cpu.ar.over.hf', but it takes h200x2.ssd"),
        (("--figure", RATIO), "--figure needs --out"),
        (("--out", ""), "--out is empty, but it takes a folder."),
        (("--repeats", "9" * 30), "--repeats does not fit into 64 bits."),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(
    bench: Bench, args: tuple[str, ...], message: str
) -> None:
    code, out, err = bench(*args)
    assert (code, out, FakeEngine.loaded) == (2, "", [])
    assert message in err
    assert err.count("\n") == 1


def test_branches_for_every_accepted_len_may_be_given_where_one_k_is_tried(bench: Bench) -> None:
    code, _, _ = bench("--draft-len", "2", "--fan-out", "3,2,1", "--prompts", "merge")
    assert code == 0
    assert FakeEngine.loaded[2][1].fan_out == (3, 2, 1)


def test_without_two_devices_ssd_is_left_out_unless_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specmon.core.ceilings.cuda_uuids", lambda: ())
    assert decoders_of_machine("cpu:0") == ("sd",)
    assert "SSD is left out: it needs two devices." in capsys.readouterr().err
    assert parse_decoders("") == ("sd", "ssd")
    assert parse_decoders("ssd") == ("ssd",)


@pytest.mark.embedded
def test_the_embedded_pair_is_swept_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--draft-len", "1,2", "--prompts", "merge", "--max-new-tokens", "12")
    assert main(["bench", "draft-len", *size, "--decoder", "sd,ssd", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {row["equal"] for stage in ("sweep", "evaluation") for row in report[stage]["rows"]} == {True}
    assert [row["draft_len"] for row in report["sweep"]["rows"]] == [0, 1, 2, 1, 2]
    assert all(row["t_v_ms"] and row["round_ms"] for row in report["sweep"]["rows"])
    assert all(row["predicted_round_ms"] for row in report["sweep"]["rows"] if row["decoder"] == "sd")
    assert report["summary"]["evaluation"]["measured"]["n"] == 1
