"""The paired report: ratios only where outputs allow them, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from specmon.core.bench.lanes import CONTROL, bench_lanes, labels
from specmon.core.bench.markdown import markdown
from specmon.core.bench.pairs import Measured, Plan
from specmon.core.bench.provenance import Provenance, of_engine
from specmon.core.bench.report import DeviceCeilings, Pair, PairedReport
from specmon.core.bench.verdicts import paired_report
from specmon.core.checks.subject import Kind
from specmon.core.engine.messages import LaneConfig
from specmon.core.events import DeviceInfo, Header
from specmon.core.metrics.pooled import pooled
from specmon.core.metrics.turn import TurnMetrics

from .turns import make_turn, prompt, timed_turn

AR, SD = LaneConfig(decoder="ar"), LaneConfig(decoder="sd", draft_len=1)
PROMPTS = [prompt("one"), prompt("two")]
HERE = Provenance(commit="abc", date="2026-11-30", hardware="cpu:0: a CPU", versions={"torch": "2.13"})


def report_of(
    turns: Callable[[int, str, int], TurnMetrics],
    *,
    configs: tuple[LaneConfig, ...] = (AR, SD),
    control: bool = False,
    drop: int = 0,
    checks: dict[str, tuple[Kind, ...]] | None = None,
) -> PairedReport:
    """The report of 2 prompts × 2 repeats, the last `drop` requests missing."""
    lanes = bench_lanes(configs, control=control)
    measured = [
        Measured(lane=lane, prompt=p.name, repeat=repeat, place=0, turn=turns(lane, p.name, repeat))
        for repeat in range(2)
        for p in PROMPTS
        for lane in range(len(lanes))
    ]
    return paired_report(
        measured[: len(measured) - drop],
        lanes=lanes,
        tuning=(),
        plan=Plan(n_lanes=len(lanes), prompts=PROMPTS, repeats=2, max_new_tokens=9),
        checks=checks or {lane.letter: ("agreement",) for lane in lanes},
        command="specmon bench paired",
        provenance=HERE,
        devices=(DeviceCeilings(name="cpu:0", model="a CPU", read=1e10, copy=9e9),),
        ceiling_source="read of 1 MiB",
        seed=0,
    )


def only_pair(report: PairedReport) -> Pair:
    [pair] = report.pairs
    return pair


def test_ratios_say_how_many_times_as_fast_the_later_lane_is() -> None:
    pair = only_pair(
        report_of(
            lambda lane, name, repeat: make_turn(
                prefill_ms=10.0 if lane == 0 else 20.0,
                round_ms=3.0,
                draft_len=lane,
            )
        )
    )
    assert (pair.a, pair.b, pair.equal, pair.output) == ("A", "B", True, "equal")
    assert pair.decode is not None
    assert pair.request is not None
    assert pair.prefill is not None
    assert pair.decode.median == pytest.approx(2.0)  # 8 rounds of 3 ms against 4
    assert pair.prefill.median == pytest.approx(0.5)
    assert pair.request.median == pytest.approx((10 + 24) / (20 + 12))
    assert pair.decode.n == 4


def test_host_launches_a_round_are_told_of_each_lane_that_counts_them() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(launches=3 + repeat if lane else None))
    assert [lane.host_launches_per_round for lane in report.lanes] == [None, 3.5]
    rows = [line for line in markdown(report).splitlines() if line.startswith(("| A AR |", "| B SD K1 |"))]
    assert [row.split(" | ")[-1] for row in rows] == ["n/a |", "3.5 |"]


def test_lanes_that_differ_have_no_ratio_and_the_first_difference_is_told() -> None:
    def turns(lane: int, name: str, repeat: int) -> TurnMetrics:
        tokens = list(range(9))
        if (lane, name, repeat) == (1, "two", 1):
            tokens[4] = 77
        return make_turn(tokens)

    report = report_of(turns)
    pair = only_pair(report)
    assert (pair.equal, pair.decode, pair.request, pair.prefill) == (False, None, None, None)
    first = pair.first_difference
    assert first is not None
    assert (first.prompt, first.repeat, first.index) == ("two", 1, 4)
    assert (first.a, first.b, first.a_text, first.b_text) == (4, 77, "<4>", "<77>")
    assert report.faults[0] == (
        "Lanes A and B differ on prompt two, repeat 2, from token 4 on: 4 '<4>' and 77 '<77>'."
    )
    assert report.faults[0] in markdown(report)
    assert "differ: no ratio" in markdown(report)


def test_an_output_that_ends_early_differs() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(range(9 - lane)))
    first = only_pair(report).first_difference
    assert first is not None
    assert (first.index, first.a, first.b) == (8, 8, None)
    assert "no token" in report.faults[0]


def test_a_lane_that_changes_its_output_is_a_fault_even_if_both_lanes_change_alike() -> None:
    report = report_of(lambda lane, name, repeat: make_turn([0, 1, 2 + repeat]))
    assert [lane.first_change is not None for lane in report.lanes] == [True, True]
    assert "Lane A gives other tokens from one repeat to another on prompt one" in report.faults[0]


def test_other_recipe_is_compared_in_time_only_and_says_so() -> None:
    report = report_of(
        lambda lane, name, repeat: make_turn(
            [lane] * 9, recipe="bf16" if lane else "fp32", round_ms=4.0 - lane
        )
    )
    pair = only_pair(report)
    assert (pair.equal, pair.output) == (None, "different recipe")
    assert pair.decode is not None
    assert pair.decode.median == pytest.approx(4 / 3)
    assert report.faults == []


@pytest.mark.parametrize("changes", [{"target": "other"}, {"stop": "error"}])
def test_other_target_or_a_failed_request_gives_no_ratio_at_all(changes: dict[str, Any]) -> None:
    pair = only_pair(report_of(lambda lane, name, repeat: make_turn(**(changes if lane else {}))))
    assert (pair.equal, pair.decode) == (None, None)
    assert pair.output in ("different target", "DNF")


def test_control_pairs_the_first_lane_with_itself_alone() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(draft_len=int(lane == 1)), control=True)
    assert [(pair.a, pair.b) for pair in report.pairs] == [("A", "B"), ("A", CONTROL)]
    assert report.control is not None
    assert report.control.decode is not None
    assert report.control.decode.median == 1.0
    rows = markdown(report).splitlines()
    assert any(row.startswith("| control: A over itself") for row in rows)
    assert "| B | tiny | n-gram | fp32 | reference-1 | cpu:0 | none | agreement |" in rows


def test_three_lanes_give_three_pairs() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(), configs=(AR, SD, LaneConfig(decoder="ssd")))
    assert [(pair.a, pair.b) for pair in report.pairs] == [("A", "B"), ("A", "C"), ("B", "C")]


def test_an_interrupted_run_is_reported_as_far_as_it_came() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(), drop=3)
    pair = only_pair(report)
    assert report.interrupted
    assert (len(report.requests), report.n_planned) == (5, 8)
    assert pair.decode is not None
    assert pair.decode.n == 2
    assert "Interrupted after 5 of 8 requests" in markdown(report)


def test_a_lane_that_was_not_reached_is_left_out() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(), drop=7)
    assert [lane.letter for lane in report.lanes] == ["A"]
    assert report.pairs == ()
    assert "No pair was measured." in markdown(report)


def test_json_is_read_back_whole() -> None:
    report = report_of(lambda lane, name, repeat: make_turn(draft_len=lane), control=True)
    assert msgspec.json.decode(msgspec.json.encode(report), type=PairedReport) == report


def test_requests_of_one_token_have_no_ratio_in_decoding_but_one_in_prefill() -> None:
    pair = only_pair(report_of(lambda lane, name, repeat: make_turn((1,))))
    assert pair.equal is True
    assert pair.decode is None
    assert pair.prefill is not None


def test_figures_of_several_turns_are_quotients_of_sums() -> None:
    turns = [make_turn(range(9), round_ms=2.0), make_turn(range(3), round_ms=5.0, draft_len=1)]
    whole = pooled(turns)
    assert whole.ms_per_token == pytest.approx((16 + 5) / 10)
    assert whole.tokens_per_round == pytest.approx(10 / 9)
    assert whole.acceptance_rate == 1.0
    assert whole.branch_hit_rate is None
    assert whole.sol_fraction == pytest.approx(9 * 0.1 / 21)
    assert pooled([]).ms_per_token is None


def test_drafting_and_verifying_are_told_side_by_side_per_round() -> None:
    configs = (LaneConfig(decoder="sd", draft_len=4), LaneConfig(decoder="sd", draft_len=4, draft_nodes=9))
    report = report_of(
        lambda lane, name, repeat: timed_turn(
            "sd", 4, draft_ms=(0.25, 0.5)[lane], verify_ms=(1.0, 1.25)[lane], devices=("cuda:0",)
        ),
        configs=configs,
    )

    found = [(lane.draft_ms, lane.verify_ms) for lane in report.lanes]
    assert found == [pytest.approx((1.0, 1.0)), pytest.approx((2.0, 1.25))]
    assert "| draft ms/round | verify ms/round |" in markdown(report)
    [tree] = [line for line in markdown(report).splitlines() if line.startswith("| B SD K4 tree 9 |")]
    assert " | 2.000 | 1.250 | " in tree


def test_a_speed_without_agreement_is_unverified() -> None:
    checks: dict[str, tuple[Kind, ...]] = {"A": ("agreement", "quality"), "B": ("quality",)}
    report = report_of(lambda lane, name, repeat: make_turn(draft_len=lane), checks=checks)

    assert [(lane.checks, lane.verified) for lane in report.lanes] == [
        (("agreement", "quality"), True),
        (("quality",), False),
    ]
    rows = {row[2:6]: row for row in markdown(report).splitlines() if row.startswith(("| A AR", "| B SD"))}
    assert "unverified" not in rows["A AR"]
    assert " 1,000 unverified | " in rows["B SD"]
    assert markdown(report).count("unverified") == 1


def test_labels_tell_what_differs_and_nothing_else() -> None:
    assert labels((AR, SD)) == ["AR", "SD K1"]
    ssd = LaneConfig(decoder="ssd", fan_out=(2,), draft="eagle3", graphs=False)
    assert labels((AR, SD, ssd)) == [
        "AR · graphs on",
        "SD K1 · draft auto · graphs on",
        "SSD K4 fan 2 · draft eagle3 · graphs off",
    ]


def test_provenance_of_an_engine_names_its_devices_and_versions() -> None:
    devices = tuple(DeviceInfo(name=f"cuda:{n}", model="GPU") for n in range(2))
    found = of_engine(Header(t=0, devices=devices, versions={"torch": "2.13"}))
    assert found.hardware == "cuda:0: GPU; cuda:1: GPU"
    assert found.versions == {"torch": "2.13"}
