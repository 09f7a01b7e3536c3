"""Rows by draft_len, the best of them, and SSD over SD against what its parts predict, on times that add up by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from specmon.core.bench.draft_len import (
    AR,
    DraftLenRow,
    Measurement,
    Setting,
    all_settings,
    on_lanes,
    rows_of,
)
from specmon.core.bench.draft_len_markdown import markdown
from specmon.core.bench.draft_len_report import Best, DraftLenReport, best_of, draft_len_report
from specmon.core.bench.pairs import Plan, ask, measure
from specmon.core.bench.provenance import Provenance
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import Decoder
from specmon.core.metrics.turn import TurnMetrics

from .turns import make_turn, prompt, timed_turn

SETTINGS = all_settings(("sd", "ssd"), (1, 2, 3))
VERIFY_MS = {0: 1.0, 1: 1.0, 2: 1.0, 3: 2.5}
LANES: dict[Decoder, int] = {"ar": 0, "sd": 1, "ssd": 2}


def by_hand(setting: Setting) -> TurnMetrics:
    """12 tokens after token one: AR in 15 ms, SD K2 in 4·1.75 ms, SSD K2 in 1.75 + 3·1.5 ms; other Ks are slower."""
    return timed_turn(setting.decoder, setting.draft_len, verify_ms=VERIFY_MS[setting.draft_len])


def measurement(
    turn_of: Callable[[Setting], TurnMetrics] = by_hand,
    settings: tuple[Setting, ...] = SETTINGS,
    *,
    drop: int = 0,
) -> Measurement:
    """Two prompts, the last `drop` requests not yet measured."""
    plan = Plan(n_lanes=len(settings), prompts=[prompt("one"), prompt("two")], repeats=1, max_new_tokens=13)
    measured = list(measure(plan, lambda number, request: turn_of(settings[number])))
    return Measurement(settings=settings, plan=plan, measured=measured[: len(measured) - drop])


def report_of(sweep: Measurement, evaluation: Measurement | None = None) -> DraftLenReport:
    return draft_len_report(
        sweep,
        evaluation,
        config=LaneConfig(decoder="sd"),
        checks={"ar": ("agreement", "quality"), "sd": ("agreement",), "ssd": ()},
        command="specmon bench draft-len",
        provenance=Provenance(commit="abc", date="2026-11-30", hardware="two GPUs", versions={}),
        devices=(),
        ceiling_source=None,
    )


def test_settings_are_ar_and_each_decoder_at_each_draft_len() -> None:
    assert [setting.label for setting in all_settings(("sd", "ssd"), (2, 4))] == [
        *("AR", "SD K2", "SD K4", "SSD K2", "SSD K4")
    ]


def test_a_setting_is_decoded_on_its_decoders_lane_with_its_draft_len() -> None:
    asked: list[tuple[int, int | None]] = []

    def decode(lane: int, request: Request) -> TurnMetrics:
        asked.append((lane, request.draft_len))
        return make_turn()

    decode_setting = on_lanes(decode, SETTINGS, LANES)
    for number in range(len(SETTINGS)):
        decode_setting(number, ask(prompt("one"), 8))
    assert asked == [(0, None), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]


def test_a_row_holds_measurement_and_prediction() -> None:
    rows = {row.label: row for row in rows_of(measurement(), 0)}
    sd = rows["SD K2"]
    assert (sd.n_requests, sd.rounds, sd.equal) == (2, 8, True)
    assert (sd.tokens_per_round, sd.acceptance_rate, sd.branch_hit_rate) == (3.0, 1.0, None)
    assert sd.chain_tokens_per_round == 3.0
    assert (sd.t_d_ms, sd.t_v_ms, sd.t_branch_ms, sd.t_sync_ms) == (0.25, 1.0, None, None)
    assert (sd.round_ms, sd.predicted_round_ms) == (1.75, 1.5)
    assert sd.tokens_per_s == pytest.approx(3 / 1.75e-3)
    assert sd.predicted_tokens_per_s == pytest.approx(3 / 1.5e-3)
    assert sd.measured_over_predicted == pytest.approx(1.5 / 1.75)
    assert sd.over_ar is not None
    assert sd.over_ar.median == pytest.approx(15 / 7)

    ssd = rows["SSD K2"]
    assert (ssd.branch_hit_rate, ssd.t_branch_ms, ssd.t_sync_ms) == (1.0, 0.5, 0.25)
    assert (ssd.round_ms, ssd.predicted_round_ms) == (6.25 / 4, 1.25)

    ar = rows["AR"]
    assert (ar.round_ms, ar.predicted_round_ms, ar.over_ar) == (1.25, 1.0, None)


def test_best_draft_lens_and_the_ratio_against_its_prediction() -> None:
    summary = report_of(measurement()).summary
    assert summary.best == (
        Best(decoder="sd", draft_len=2, alone=2, predicted=2),
        Best(decoder="ssd", draft_len=2, alone=2, predicted=2),
    )
    found = summary.sweep
    assert found is not None
    assert (found.sd_draft_len, found.ssd_draft_len) == (2, 2)
    assert found.measured is not None
    assert found.measured.median == pytest.approx(7 / 6.25)
    assert found.predicted == pytest.approx((3 / 1.25) / (3 / 1.5))
    assert found.measured_over_predicted == pytest.approx(7 / 6.25 / 1.2)


def row(draft_len: int, tau: float, shared: float | None, round_ms: float) -> DraftLenRow:
    return DraftLenRow(
        decoder="sd",
        draft_len=draft_len,
        n_requests=3,
        rounds=100,
        equal=True,
        fault=None,
        tokens_per_round=tau,
        acceptance_rate=0.5,
        branch_hit_rate=None,
        host_launches_per_round=2.0,
        chain_tokens_per_round=shared,
        round_ms=round_ms,
        predicted_round_ms=round_ms - 0.2,
        tokens_per_s=1000 * tau / round_ms,
    )


def test_draft_lens_are_compared_by_a_tau_that_all_of_them_share() -> None:
    """K 7 was lucky on its own few rounds."""
    lucky = row(4, tau=3.07, shared=3.2, round_ms=6.4), row(7, tau=4.23, shared=3.9, round_ms=8.26)
    assert best_of(lucky) == (Best(decoder="sd", draft_len=4, alone=7, predicted=4),)

    not_chains = row(4, tau=3.07, shared=None, round_ms=6.4), row(7, tau=4.23, shared=3.9, round_ms=8.26)
    assert best_of(not_chains) == (Best(decoder="sd", draft_len=7, alone=7, predicted=7),)


def test_of_two_draft_lens_equally_fast_the_smaller_is_best() -> None:
    def flat(setting: Setting) -> TurnMetrics:
        return make_turn(
            draft_len=setting.draft_len, round_ms=1.0 + setting.draft_len, decoder=setting.decoder
        )

    report = report_of(measurement(flat))
    assert [(best.decoder, best.draft_len) for best in report.summary.best] == [("sd", 1), ("ssd", 1)]


def test_the_ratio_is_of_the_evaluation_where_there_is_one() -> None:
    chosen = measurement(settings=(AR, Setting("sd", 1), Setting("ssd", 3)))
    report = report_of(measurement(), chosen)
    found = report.summary.evaluation
    assert found is not None
    assert (found.sd_draft_len, found.ssd_draft_len) == (1, 3)
    assert "- SSD K3 over SD K1: " in markdown(report)
    assert "SSD K2 over SD K2" not in markdown(report)


def test_a_sweep_alone_says_what_its_ratio_was_chosen_on() -> None:
    text = markdown(report_of(measurement()))
    assert "- SD is fastest at K 2, 2.14 times as fast as AR (its parts predict K 2)." in text
    assert (
        "- SSD K2 over SD K2: **1.120×** [1.120, 1.120], predicted 1.200×, measured ÷ predicted 0.933, on the"
        in text
    )
    assert "| SD K2 | 3.00 | 3.00 | 1.000 | n/a | 0.25 | 1.00 | n/a | n/a | 1.75 | 1.50 |" in text


def test_a_setting_whose_tokens_differ_has_no_times_and_is_never_best() -> None:
    def wrong(setting: Setting) -> TurnMetrics:
        if setting == Setting("sd", 2):
            return timed_turn("sd", 2, [*range(12), 99])
        return by_hand(setting)

    report = report_of(measurement(wrong))
    [row] = [row for row in report.sweep.rows if row.label == "SD K2"]
    assert row.equal is False
    assert {row.round_ms, row.tokens_per_s, row.predicted_tokens_per_s, row.over_ar} == {None}
    assert report.faults == [
        "Lanes AR and SD K2 differ on prompt one, repeat 1, from token 12 on: 12 '<12>' and 99 '<99>'."
    ]
    assert report.summary.best[0].draft_len == 1
    assert report.faults[0] in markdown(report)
    assert "tokens differ" in markdown(report)


def test_no_draft_len_is_best_in_a_sweep_that_is_not_whole() -> None:
    report = report_of(measurement(drop=1))
    assert (report.sweep.interrupted, report.summary.best) == (True, ())
    assert "Interrupted after 13 of 14 requests" in markdown(report)


def test_ssd_on_one_device_is_measured_but_not_predicted() -> None:
    def shared(setting: Setting) -> TurnMetrics:
        return timed_turn(setting.decoder, setting.draft_len, devices=("cuda:0",))

    report = report_of(measurement(shared))
    summary = report.summary
    assert [(best.decoder, best.predicted) for best in summary.best] == [("sd", 3), ("ssd", None)]
    assert summary.sweep is not None
    assert summary.sweep.measured is not None
    assert (summary.sweep.predicted, summary.sweep.measured_over_predicted) == (None, None)
    text = markdown(report)
    assert ", one device\n" in text
    assert f"- SSD is fastest at K {summary.best[1].draft_len}, 3.00 times as fast as AR.\n" in text
    assert "nothing overlaps" in text
    assert not any(foreign in text for foreign in ("predict K n/a", "predicted n/a", "max(t_v, t_branch)"))


def test_turns_of_one_token_have_no_times() -> None:
    report = report_of(measurement(lambda setting: make_turn((1,), decoder=setting.decoder)))
    assert report.summary.best == ()
    assert {row.tokens_per_s for row in report.sweep.rows} == {None}


def test_nothing_measured_is_no_report() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        report_of(measurement(drop=14))


def test_a_row_without_agreement_is_unverified() -> None:
    report = report_of(measurement())

    assert {(row.decoder, row.verified) for row in report.sweep.rows} == {
        ("ar", True),
        ("sd", True),
        ("ssd", False),
    }
    text = markdown(report)
    for row in text.splitlines():
        if row.startswith(("| AR |", "| SD K", "| SSD K")):
            assert ("unverified" in row) == row.startswith("| SSD")
