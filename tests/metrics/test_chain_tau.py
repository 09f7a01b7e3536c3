"""τ of chains of one length, from turns that drafted other lengths too."""

from __future__ import annotations

import pytest

from specmon.core.metrics.chain_tau import chain_tau


def turns(ledger_of, stream, *plans):
    return [ledger_of(stream(each, decoder="sd")).lanes[0].turns[-1] for each in plans]


def test_positions_are_counted_over_drafts_of_all_lengths(ledger_of, stream, plan):
    """Position 1: 3 of 4 right; position 2: 2 of the 3 that reached it; position 3: 1 of the 1 that drafted it so far."""
    found = turns(
        ledger_of,
        stream,
        [plan(k=2, accepted=2), plan(k=2, accepted=0)],
        [plan(k=3, accepted=3), plan(k=3, accepted=1)],
    )

    assert chain_tau(found, 1) == pytest.approx(1 + 3 / 4)
    assert chain_tau(found, 2) == pytest.approx(1 + 3 / 4 + 3 / 4 * 2 / 3)
    assert chain_tau(found, 3) == pytest.approx(1 + 3 / 4 + 3 / 4 * 2 / 3 + 3 / 4 * 2 / 3 * 1)


def test_it_is_the_plain_tau_where_all_drafts_have_that_length(ledger_of, stream, plan):
    found = turns(ledger_of, stream, [plan(k=4, accepted=a) for a in (4, 0, 2, 3, 1)])

    assert chain_tau(found, 4) == pytest.approx(found[0].tokens_per_round) == pytest.approx(3.0)


def test_a_position_that_nothing_reached_is_not_guessed(ledger_of, stream, plan):
    found = turns(ledger_of, stream, [plan(k=4, accepted=1), plan(k=4, accepted=0)])

    assert chain_tau(found, 2) == pytest.approx(1.5)
    assert chain_tau(found, 3) is None
    assert chain_tau(found, 5) is None
    assert chain_tau([], 1) is None
