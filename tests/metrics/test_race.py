import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from specmon.core.events import Lane, Round, Turn, TurnEnd
from specmon.core.metrics.race import compare_lanes, decoder_label, standings
from specmon.core.metrics.race_tokens import tokens_around
from specmon.core.metrics.summary import race_summary, summary

AR = {"decoder": "ar", "devices": ("cuda:0",)}
SD = {"decoder": "sd"}


@pytest.fixture
def pair(race_stream, plan):
    """A: 24 AR rounds of 4.1 ms. B: 8 SD rounds of 6.1 ms that emit 3 tokens. Both end with 25 tokens."""
    return race_stream([([plan(0)] * 24, AR), ([plan(2)] * 8, SD)])


def test_standings_by_hand(pair, ledger_of):
    race = standings(ledger_of(pair))
    a, b = race.standings
    assert (a.letter, a.label, a.n_tokens, a.clock_ns) == ("A", "AR", 25, 24 * 4_100_000)
    assert (b.letter, b.label, b.n_tokens, b.clock_ns) == ("B", "SD K4", 25, 8 * 6_100_000)
    assert race.horizon_ns == 8 * 6_100_000
    assert (a.tokens_at_horizon, b.tokens_at_horizon) == (1 + 11, 25)
    assert race.ranking == [1, 0]
    assert (b.verify_ms, b.draft_ms) == (4.0, 2.0)
    assert b.other_ms == pytest.approx(0.1)
    assert a.turn.ms_per_round == pytest.approx(a.verify_ms + a.draft_ms + a.other_ms)
    assert a.drain_fraction == 0.0


def test_final_ratio_is_the_ratio_of_ms_per_token(pair, ledger_of):
    verdict = standings(ledger_of(pair)).standings[1].verdict
    assert (verdict.equal, verdict.provisional, verdict.output) == (True, False, "equal")
    assert verdict.ratio == (24 * 4_100_000) / (8 * 6_100_000)


def test_ratio_is_provisional_until_both_finish(pair, ledger_of):
    verdict = standings(ledger_of([e for e in pair if not isinstance(e, TurnEnd)][:-8])).standings[1].verdict
    assert verdict.provisional
    assert verdict.output == "equal to 17"
    assert verdict.ratio is not None


def _other_token(events, *, lane, index):
    """The events with another token in one round of a lane."""
    return [
        replace(e, emitted=(7,), bonus=7)
        if isinstance(e, Round) and (e.lane, e.index) == (lane, index)
        else e
        for e in events
    ]


def test_different_tokens_give_their_place_and_no_ratio(race_stream, plan, ledger_of):
    events = race_stream([([plan(0)] * 8, AR), ([plan(0)] * 8, AR)])
    verdict = standings(ledger_of(_other_token(events, lane=1, index=4))).standings[1].verdict
    assert (verdict.equal, verdict.first_difference, verdict.ratio) == (False, 5, None)
    assert verdict.output == "differs at 5"


def test_whole_outputs_of_other_length_differ(race_stream, plan, ledger_of):
    race = standings(ledger_of(race_stream([([plan(0)] * 8, AR), ([plan(0)] * 6, AR)])))
    assert race.standings[1].verdict.first_difference == 7


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ({"recipe": "fp32"}, "different recipe"),
        ({"temperature": 0.7}, "equality n/a"),
        ({"stop_reason": "error"}, "DNF"),
        ({"reused_tokens": 4}, "equality n/a: different history"),
    ],
)
def test_lanes_that_cannot_be_compared_get_no_ratio(race_stream, plan, ledger_of, config, output):
    race = standings(ledger_of(race_stream([([plan(0)] * 8, AR), ([plan(0)] * 8, AR | config)])))
    verdict = race.standings[1].verdict
    assert (verdict.equal, verdict.ratio, verdict.output) == (None, None, output)


def test_failed_lane_ranks_last_and_does_not_hold_the_horizon(race_stream, plan, ledger_of):
    failing = AR | {"stop_reason": "error"}
    race = standings(ledger_of(race_stream([([plan(0)] * 2, failing), ([plan(0)] * 8, AR)])))
    assert race.ranking == [1, 0]
    assert race.horizon_ns == 8 * 4_100_000
    assert race.standings[0].failed
    assert not race.standings[0].finished


@pytest.mark.parametrize("early", ["error", "cancelled"])
def test_first_lane_that_finishes_is_the_reference(race_stream, plan, ledger_of, early):
    stopped = SD | {"stop_reason": early}
    ledger = ledger_of(race_stream([([plan(2)] * 2, stopped), ([plan(0)] * 24, AR), ([plan(2)] * 8, SD)]))
    race = standings(ledger)
    assert (race.reference, race.reference_letter) == (1, "B")
    assert [row.letter for row in race.compared] == ["A", "C"]
    assert [row.verdict.output for row in race.standings[1:]] == ["reference", "equal"]
    assert race.standings[0].verdict.output == {"error": "DNF", "cancelled": "equal to 7"}[early]
    figures = race_summary(ledger)
    assert figures.ratios == (None, 1.0, (24 * 4_100_000) / (8 * 6_100_000))
    assert (figures.equal, figures.first_difference) == (True, None)


def test_lanes_that_all_fail_have_no_reference(race_stream, plan, ledger_of):
    failing = AR | {"stop_reason": "error"}
    ledger = ledger_of(race_stream([([plan(0)] * 2, failing), ([plan(0)] * 3, failing)]))
    race = standings(ledger)
    assert race.reference is None
    assert [row.verdict.output for row in race.standings] == ["DNF", "DNF"]
    assert race_summary(ledger).ratios == (None, None)
    assert race_summary(ledger).equal is None


def test_difference_is_told_from_the_reference(race_stream, plan, ledger_of):
    failing = AR | {"stop_reason": "error"}
    events = race_stream([([plan(0)] * 2, failing), ([plan(0)] * 8, AR), ([plan(0)] * 8, AR)])
    race = standings(ledger_of(_other_token(events, lane=0, index=1)))
    assert next(row.differs for row in tokens_around(race, 2) if row.index == 2) == (True, False, False)


def test_letters_follow_the_lanes_where_a_race_began_with_another(pair, ledger_of):
    """Of a second race only lane 1 has begun."""
    again = [e for e in pair if isinstance(e, Turn) and e.lane == 1]
    race = standings(ledger_of([*pair, *(replace(e, turn=1, t=pair[-1].t) for e in again)]))
    assert [(row.lane, row.letter) for row in race.standings] == [(1, "B")]


def test_cancelled_lane_is_not_accused_of_another_length(race_stream, plan, ledger_of):
    cancelled = AR | {"stop_reason": "cancelled"}
    verdict = (
        standings(ledger_of(race_stream([([plan(0)] * 8, AR), ([plan(0)] * 5, cancelled)])))
        .standings[1]
        .verdict
    )
    assert (verdict.equal, verdict.provisional, verdict.output) == (True, True, "equal to 6")


def test_wall_is_clocks_and_switching_without_prefill(pair, ledger_of):
    """Bursts of 8: A, B, A, A, and an empty fifth that ends A; three switches lie between rounds."""
    race = standings(ledger_of(pair))
    assert race.wall_ns == 24 * 4_100_000 + 8 * 6_100_000 + race.switching_ns
    switches = [
        (a, b)
        for a, b in zip(
            [e for e in pair if isinstance(e, Round)],
            [e for e in pair if isinstance(e, Round)][1:],
            strict=False,
        )
        if b.t0 != a.t1
    ]
    assert race.switching_ns == sum(b.t0 - a.t1 for a, b in switches)
    assert race.switching_ns > 0


def test_drain_counts_work_after_a_lanes_turn(race_stream, plan, ledger_of):
    """A late branch draft outlives the round that ends a burst by 0.5 ms; inside a burst it is no drain."""
    ssd = [plan(1, outcome="late")] * 16
    race = standings(ledger_of(race_stream([([plan(0)] * 16, AR), (ssd, {"decoder": "ssd"})])))
    row = race.standings[1]
    assert row.drain_fraction == 500_000 / row.clock_ns
    assert not row.turns_too_short


@pytest.mark.parametrize(
    ("fan_out", "words"),
    [
        ({}, None),
        ({"fan_out": (2,) * 5}, "2"),
        ({"fan_out": (5, 4, 3, 2, 2)}, "5·4·3·2·2"),
        ({"fan_out": (6, 5, 3, 1, 1), "fan_out_budget": 16}, "auto:16"),
    ],
)
def test_label_and_json_show_draft_len_and_fan_out(stream, plan, ledger_of, fan_out, words):
    ledger = ledger_of([replace(e, **fan_out) if isinstance(e, Turn) else e for e in stream([plan(1)])])
    turn = ledger.lanes[0].turns[0]
    assert decoder_label(turn) == ("SSD K4" if words is None else f"SSD K4 fan {words}")
    assert decoder_label(turn, fan_out=False) == "SSD K4"
    assert summary(ledger).fan_out == words


def test_label_always_names_a_scripted_drafter(stream, plan, ledger_of):
    named = {"drafter_kind": "scripted", "drafter": "scripted α=0.78 (0.6/0.72/0.8) + a model"}
    ledger = ledger_of([replace(e, **named) if isinstance(e, Lane) else e for e in stream([plan(1)])])
    assert decoder_label(ledger.lanes[0].turns[0], fan_out=False) == "SSD K4 scripted α=0.78"


@pytest.mark.parametrize(
    ("drafters", "labels"),
    [
        ([("draft_model", "a"), ("draft_model", "a")], ["AR", "SD K4", "SD K4"]),
        ([("draft_model", "a"), ("eagle3", "b")], ["AR", "SD K4 draft model", "SD K4 eagle3"]),
        ([("eagle3", "a"), ("eagle3", "b")], ["AR", "SD K4 a", "SD K4 b"]),
        ([("eagle3", "a"), ("block", "a")], ["AR", "SD K4 eagle3", "SD K4 block"]),
        ([("scripted", "scripted α=0.7"), ("eagle3", "b")], ["AR", "SD K4 scripted α=0.7", "SD K4"]),
    ],
)
def test_lanes_of_different_drafters_name_them(race_stream, plan, ledger_of, drafters, labels):
    events = race_stream([([plan(0)] * 8, AR), ([plan(1)] * 4, SD), ([plan(1)] * 4, SD)])
    named = [
        replace(e, drafter_kind=drafters[e.lane - 1][0], drafter=drafters[e.lane - 1][1])
        if isinstance(e, Lane) and e.lane
        else e
        for e in events
    ]
    assert [row.label for row in standings(ledger_of(named)).standings] == labels


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        ({"recipe": "fp32"}, ["AR bf16", "AR fp32"]),
        ({"target": "other"}, ["AR target", "AR other"]),
        ({"devices": ("cuda:1",)}, ["AR cuda:0", "AR cuda:1"]),
        ({}, ["AR", "AR"]),
    ],
)
def test_lanes_are_told_apart_by_what_differs(race_stream, plan, ledger_of, change, labels):
    events = race_stream([([plan(0)] * 8, AR), ([plan(0)] * 8, AR)])
    alike = {"target": "target", "recipe": "bf16"}
    changed = [
        replace(e, **(alike | (change if e.lane else {}))) if isinstance(e, Lane) else e for e in events
    ]
    assert [row.label for row in standings(ledger_of(changed)).standings] == labels


def test_race_without_turns_is_empty(ledger_of):
    race = standings(ledger_of([]))
    assert (race.standings, race.ranking, race.horizon_ns, race.wall_ns) == ([], [], 0, 0)


@given(data=st.data())
def test_ar_against_itself_is_one(any_stream, ledger_of, data):
    events = data.draw(any_stream)
    one, other = (ledger_of(events).lanes[0].turns[0] for _ in range(2))
    verdict = compare_lanes(one, other)
    assert (verdict.equal, verdict.ratio, verdict.provisional) == (True, 1.0, False)
