from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from specmon.core.events import Prefill, Round, Turn

MS = 1_000_000


def test_turn_counts_token_one_but_gives_it_no_round(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(2), plan(0)], decoder="sd")).lanes[0].turns[0]
    assert (turn.n_tokens, turn.n_rounds, turn.decoded_tokens) == (1 + 3 + 1, 2, 4)
    assert turn.tokens() == [1010, 1011, 1012, 1013, 1014]
    assert turn.text == "<1><1011><1012><1013><1014>"


def test_turn_rates_by_hand(stream, plan, ledger_of):
    """Rounds of 2 + 4 + 0.1 ms; 20 ms of prefill; 3 + 1 + 5 tokens decoded."""
    turn = ledger_of(stream([plan(2), plan(0), plan(4)], decoder="sd")).lanes[0].turns[0]
    decode_ns = 3 * 6_100_000
    assert turn.decode_ns == decode_ns
    assert turn.prefill_ms == 20.0
    assert turn.ttft_ms == 20.0
    assert turn.ms_per_round == decode_ns / (3 * MS)
    assert turn.ms_per_token == decode_ns / (9 * MS)
    assert turn.tokens_per_s == 9 * 10**9 / decode_ns
    assert turn.request_tokens_per_s == 10 * 10**9 / (decode_ns + 20 * MS)
    assert turn.tokens_per_round == 3.0
    assert turn.acceptance_rate == 6 / 12


def test_turn_without_rounds_has_no_figures_rather_than_zero(stream, plan, ledger_of):
    turn = ledger_of([e for e in stream([plan(2)]) if not isinstance(e, (Round, Prefill))]).lanes[0].turns[0]
    figures = (turn.ms_per_token, turn.tokens_per_s, turn.tokens_per_round, turn.acceptance_rate)
    assert figures == (None,) * 4
    assert (turn.branch_hit_rate, turn.prefill_ms, turn.request_tokens_per_s) == (None, None, None)
    assert (turn.n_tokens, turn.text, turn.token_fates(), turn.positions()) == (0, "", [], [])


def test_ar_has_no_acceptance_rate(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(0)] * 3, decoder="ar", devices=("cuda:0",))).lanes[0].turns[0]
    assert turn.acceptance_rate is None
    assert turn.tokens_per_round == 1.0
    assert turn.tau_by_prefix() == {}


def test_discarded_round_counts_in_no_total(stream, plan, ledger_of):
    events = stream([plan(2), plan(4)], decoder="sd")
    whole, cut = ledger_of(events), list(events)
    cut[-2] = Round(**{f: getattr(cut[-2], f) for f in Round.__struct_fields__} | {"discarded": True})
    turn = ledger_of(cut).lanes[0].turns[0]
    assert whole.lanes[0].turns[0].n_rounds == 2
    assert (turn.n_rounds, turn.n_tokens, turn.decode_ns) == (1, 4, 6_100_000)
    assert len(turn.discarded) == 1
    assert turn.acceptance_rate == 2 / 4


def test_acceptance_counts_only_tokens_kept_past_a_stop(stream, plan, ledger_of):
    """The last round accepts 4 but generation stops after 2: two kept of four, two positions judged."""
    turn = ledger_of(stream([plan(1), plan(4)], decoder="sd", stop_after=2)).lanes[0].turns[0]
    assert turn.rounds[-1].accepted_len == 4
    assert turn.acceptance_rate == 3 / 8
    counts = [(p.drafted, p.reached, p.accepted) for p in turn.positions()]
    assert counts == [(2, 2, 2), (2, 2, 1), (2, 0, 0), (2, 0, 0)]


def test_positions_give_both_acceptances(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(0), plan(1), plan(4), plan(2, k=2)], decoder="sd")).lanes[0].turns[0]
    table = [(p.position, p.unconditional, p.conditional) for p in turn.positions()]
    assert table == [(1, 3 / 4, 3 / 4), (2, 2 / 4, 2 / 3), (3, 1 / 3, 1 / 1), (4, 1 / 3, 1 / 1)]


def test_tau_by_prefix_stops_at_the_longest_draft(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(0), plan(1), plan(3), plan(4)], decoder="sd")).lanes[0].turns[0]
    assert turn.tau_by_prefix() == {1: 1.75, 2: 2.25, 3: 2.75, 4: 3.0}
    assert turn.tau_by_prefix()[4] == turn.tokens_per_round


def test_tau_by_prefix_counts_rounds_that_drafted_less(stream, plan, ledger_of):
    """A look-up that finds four tokens every other round is no drafter of four every round."""
    turn = ledger_of(stream([plan(4), plan(0, k=0), plan(4), plan(1, k=1)], decoder="sd")).lanes[0].turns[0]
    assert turn.tau_by_prefix() == {1: 1.75, 2: 2.25, 3: 2.75, 4: 3.25}
    assert turn.tau_by_prefix()[4] == turn.tokens_per_round


def test_branch_hit_rate_leaves_out_rounds_without_successor_or_branches(stream, plan, ledger_of):
    plans = [plan(1), plan(1, outcome="rank"), plan(2, outcome="late"), plan(0, outcome="none"), plan(3)]
    turn = ledger_of(stream(plans)).lanes[0].turns[0]
    assert turn.branch_hit_rate == 1 / 3
    assert turn.miss_reasons() == {"rank": 1, "late": 1}
    rows = [(h.accepted_len, h.hits, h.rounds, h.fan_out) for h in turn.hits_by_accepted_len()]
    assert rows == [(0, 0, 0, 2), (1, 1, 2, 2), (2, 0, 1, 2), (3, 0, 0, 2), (4, 0, 0, 2)]


def test_tokens_at_counts_whole_rounds_only(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(2), plan(0)], decoder="sd")).lanes[0].turns[0]
    assert [turn.tokens_at(ns) for ns in (0, 6_099_999, 6_100_000, 12_200_000, 10**12)] == [1, 1, 4, 5, 5]


def test_tree_counts_depth_not_nodes(stream, plan, ledger_of):
    events = stream([plan(1)], decoder="sd", devices=("cuda:0",))
    chain = next(e for e in events if isinstance(e, Round))
    fields = {f: getattr(chain, f) for f in Round.__struct_fields__}
    tree = fields | {"draft": (1011, 7, 8), "parents": (-1, -1, 0), "accepted_path": (0,), "requested_k": 2}
    turn = ledger_of([Round(**tree) if e is chain else e for e in events]).lanes[0].turns[0]
    assert turn.acceptance_rate == 1 / 2
    assert len(turn.positions()) == 2


def test_hostile_tree_is_counted_without_failing(stream, plan, ledger_of):
    events = stream([plan(1)], decoder="sd")
    chain = next(e for e in events if isinstance(e, Round))
    tree = {f: getattr(chain, f) for f in Round.__struct_fields__} | {"parents": (3, 99, -7, 2)}
    turn = ledger_of([Round(**tree) if e is chain else e for e in events]).lanes[0].turns[0]
    assert turn.positions()


@given(data=st.data())
def test_turn_identities_hold_on_any_stream(any_stream, ledger_of, data):
    turn = ledger_of(data.draw(any_stream)).lanes[0].turns[0]
    emitted = sum(len(r.emitted) for r in turn.rounds)
    assert turn.n_tokens == 1 + emitted == len(turn.tokens()) == len(turn.token_fates())
    assert turn.decode_ns == turn.rounds[-1].t1 - turn.rounds[0].t0
    positions = turn.positions()
    kept = sum(min(r.accepted_len, len(r.emitted)) for r in turn.rounds)
    assert sum(p.accepted for p in positions) == kept
    assert sum(p.drafted for p in positions) == sum(len(r.draft) for r in turn.rounds)
    assert all(p.accepted <= p.reached <= p.drafted for p in positions)
    assert all(0 <= a.accepted - b.reached <= 1 for a, b in pairwise(positions))  # 1: stopped in between
    hits = turn.hits_by_accepted_len()
    assert sum(h.rounds for h in hits) == sum(h.hits for h in hits) + sum(turn.miss_reasons().values())


@given(data=st.data())
def test_fates_grow_at_the_end_and_agree_with_a_fresh_reading(any_stream, ledger_of, data):
    events = data.draw(any_stream)
    ledger, seen = ledger_of([]), []
    for event in events:
        ledger.feed(event)
        if isinstance(event, (Turn, Prefill, Round)):
            now = list(ledger.lanes[0].turns[0].token_fates())
            assert now[: len(seen)] == seen
            seen = now
    assert seen == ledger_of(events).lanes[0].turns[0].token_fates()
