"""Rounds taken apart over several turns, and the round that the parts predict, on times that add up by hand."""

from __future__ import annotations

from typing import Any

import pytest

from specmon.core.events import Lane, Prefill, Round, Span, Turn
from specmon.core.metrics.round_parts import round_parts
from specmon.core.metrics.turn import TurnMetrics

DRAFT = (1, 2, 3, 4)
HIT, MISS = {"hit": 0}, {"miss": "rank"}
TWO = ("cuda:0", "cuda:1")


def a_round(
    index: int, t0: int, t1: int, spans: list[tuple[int, str, int, int, int]], **fields: Any
) -> Round:
    """Four tokens drafted, one kept; spans are (device, kind, start, end, for_round)."""
    told = {
        "requested_k": 4,
        "drafter": "draft_model",
        "draft": DRAFT,
        "accepted_len": 1,
        "bonus": 9,
        "emitted": (1, 9),
        "text": ("", ""),
        **fields,
    }
    shown = tuple(Span(device, "main", kind, start, end, of) for device, kind, start, end, of in spans)  # type: ignore[arg-type]
    return Round(t=t1, index=index, t0=t0, t1=t1, spans=shown, **told)


def a_turn(decoder: str, rounds: list[Round], devices: tuple[str, ...] = TWO) -> TurnMetrics:
    lane = Lane(t=0, decoder=decoder, target="t", devices=devices)  # type: ignore[arg-type]
    turn = TurnMetrics(Turn(t=0, prompt="p", prompt_tokens=1, draft_len=4 if decoder != "ar" else 0), lane)
    turn.feed_prefill(Prefill(t=0, t0=0, chunks=(), token_one=0))
    for round_ in rounds:
        turn.feed_round(round_)
    return turn


def sd_turn(*drafts_ns: int) -> TurnMetrics:
    """A round for each draft: that, 50 ns of verification, and 10 ns more."""
    rounds, t0 = [], 0
    for index, draft_ns in enumerate(drafts_ns):
        drafted = t0 + draft_ns
        spans = [(1, "draft", t0, drafted, index), (0, "verify", drafted, drafted + 50, index)]
        rounds.append(a_round(index, t0, drafted + 60, spans))
        t0 = drafted + 60
    return a_turn("sd", rounds)


def ssd_turn(first_ended: Any = HIT, second_ended: Any = HIT, devices: tuple[str, ...] = TWO) -> TurnMetrics:
    """Three rounds; the first drafts from scratch, and the second's branches take until 20 ns after its outcome."""
    first = [(1, "draft", 0, 40, 0), (0, "verify", 40, 90, 0), (1, "branch_draft", 40, 80, 1)]
    after_hit = [(0, "handoff", 100, 110, 1), (0, "verify", 110, 160, 1), (1, "branch_draft", 110, 190, 2)]
    after_wait = [(0, "wait", 170, 200, 2), (0, "verify", 200, 250, 2)]
    return a_turn(
        "ssd",
        [
            a_round(0, 0, 100, first, **first_ended),
            a_round(1, 100, 170, after_hit, **second_ended),
            a_round(2, 170, 260, after_wait),
        ],
        devices,
    )


def test_sd_is_predicted_from_its_draft_and_its_verification():
    parts = round_parts([sd_turn(40)])
    assert parts is not None
    assert (parts.draft_len, parts.t_d, parts.t_v, parts.round_ns) == (4, 10.0, 50.0, 100.0)
    assert (parts.t_branch, parts.t_sync, parts.hit_rate) == (None, None, None)
    assert parts.predicted is not None
    assert parts.predicted.round_ns == 4 * 10 + 50
    assert parts.predicted.tokens_per_s == pytest.approx(2 / 90e-9)


def test_ar_is_predicted_from_its_verification():
    alone = {
        "requested_k": 0,
        "draft": (),
        "drafter": None,
        "accepted_len": 0,
        "emitted": (9,),
        "text": ("",),
    }
    parts = round_parts([a_turn("ar", [a_round(0, 0, 55, [(0, "verify", 0, 50, 0)], **alone)])])
    assert parts is not None
    assert parts.predicted is not None
    assert (parts.round_ns, parts.predicted.round_ns) == (55.0, 50.0)


def test_sync_is_what_passes_between_a_hits_outcome_and_verification_without_branch_drafting():
    parts = round_parts([ssd_turn()])
    assert parts is not None
    assert parts.t_sync == (10 + (30 - 20)) / 2
    assert parts.t_branch == (40 + 80) / 2


def test_ssd_is_predicted_from_the_longer_of_verification_and_branches_and_from_sync():
    parts = round_parts([ssd_turn()])
    assert parts is not None
    assert (parts.hit_rate, parts.t_d, parts.t_v) == (1.0, 10.0, 50.0)
    assert parts.predicted is not None
    assert parts.predicted.round_ns == 60 + 10


def test_ssd_drafts_from_scratch_after_a_miss():
    parts = round_parts([ssd_turn(second_ended=MISS)])
    assert parts is not None
    assert (parts.hit_rate, parts.t_sync) == (0.5, 10.0)
    assert parts.predicted is not None
    assert parts.predicted.round_ns == 60 + 0.5 * 4 * 10 + 10


def test_turns_are_summed_up_before_anything_is_divided():
    parts = round_parts([sd_turn(40), sd_turn(80, 80)])
    assert parts is not None
    assert parts.t_d == (40 + 80 + 80) / 12
    assert parts.round_ns == (100 + 140 + 140) / 3


def test_nothing_is_predicted_where_a_part_was_not_seen():
    never_hit = round_parts([ssd_turn(MISS, MISS)])
    assert never_hit is not None
    assert (never_hit.hit_rate, never_hit.t_sync, never_hit.predicted) == (0.0, None, None)


def test_nothing_is_predicted_for_ssd_on_one_device():
    parts = round_parts([ssd_turn(devices=("cuda:0",))])
    assert parts is not None
    assert parts.predicted is None


def test_turns_without_a_round_have_no_parts():
    assert round_parts([]) is None
    assert round_parts([a_turn("sd", [])]) is None
