"""The figures of a turn hold to each other, as docs/metrics.md defines them, on any stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.metrics.acceptance import drafted_len, had_branches, kept_len

TURNS = st.data()


def turns(ledger):
    return [turn for lane in ledger.lanes.values() for turn in lane.turns]


def counted(turn):
    return [round_ for round_ in turn.rounds if not round_.discarded]


@given(data=TURNS)
def test_tokens_are_token_one_and_what_rounds_emitted(any_stream, ledger_of, data):
    for turn in turns(ledger_of(data.draw(any_stream))):
        emitted = sum(len(round_.emitted) for round_ in counted(turn))
        assert turn.n_rounds == len(counted(turn))
        assert turn.n_tokens == turn.decoded_tokens + (turn.prefill_ns is not None)
        assert turn.decoded_tokens == emitted
        if turn.n_rounds:
            assert turn.tokens_per_round == emitted / turn.n_rounds


@given(data=TURNS)
def test_acceptance_adds_up_by_position_and_by_round(any_stream, ledger_of, data):
    for turn in turns(ledger_of(data.draw(any_stream))):
        drafted = sum(drafted_len(round_) for round_ in counted(turn))
        kept = sum(kept_len(round_) for round_ in counted(turn) if drafted_len(round_))
        positions = turn.positions()
        assert sum(position.drafted for position in positions) == drafted
        assert sum(position.accepted for position in positions) == kept
        assert turn.acceptance_rate == (kept / drafted if drafted else None)
        for position, after in pairwise(positions):
            assert (
                position.accepted >= after.reached >= after.accepted
            )  # a position is reached where the last was kept
            assert position.drafted >= after.drafted
        for position in positions:
            assert position.drafted >= position.reached >= position.accepted


@given(data=TURNS)
def test_tau_by_prefix_is_what_drafts_of_k_would_have_kept(any_stream, ledger_of, data):
    for turn in turns(ledger_of(data.draw(any_stream))):
        taus = list(turn.tau_by_prefix().values())
        assert all(later >= sooner >= 1 for sooner, later in pairwise(taus))
        for k, tau in turn.tau_by_prefix().items():
            kept = sum(min(kept_len(round_), k) for round_ in counted(turn) if drafted_len(round_))
            assert tau == pytest.approx(1 + kept / turn.n_rounds)


@given(data=TURNS)
def test_hits_and_misses_are_the_rounds_that_had_branches_and_a_successor(any_stream, ledger_of, data):
    for turn in turns(ledger_of(data.draw(any_stream))):
        decided = [r for r in counted(turn) if had_branches(r) and (r.hit is not None or r.miss is not None)]
        hits = sum(round_.hit is not None for round_ in decided)
        after = turn.hits_by_accepted_len()
        assert turn.branch_hit_rate == (hits / len(decided) if decided else None)
        assert (sum(a.hits for a in after), sum(a.rounds for a in after)) == (hits, len(decided))
        assert sum(turn.miss_reasons().values()) == len(decided) - hits


@given(data=TURNS)
def test_speeds_are_one_time_seen_two_ways(any_stream, ledger_of, data):
    for turn in turns(ledger_of(data.draw(any_stream))):
        spent = sum(round_.t1 - round_.t0 for round_ in counted(turn)) / 1e6
        assert turn.decode_ms == pytest.approx(spent)
        if turn.ms_per_token and turn.tokens_per_s:
            assert turn.ms_per_token * turn.decoded_tokens == pytest.approx(turn.decode_ms)
            assert turn.ms_per_token * turn.tokens_per_s == pytest.approx(1000)
            assert turn.ms_per_round == pytest.approx(turn.ms_per_token * turn.tokens_per_round)
