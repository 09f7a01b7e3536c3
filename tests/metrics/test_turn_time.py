from hypothesis import given
from hypothesis import strategies as st

from specmon.core.metrics.spans import busy_ns, shares
from specmon.core.metrics.turn_time import TurnTimeSum, turn_time


@given(data=st.data())
def test_time_kept_up_round_by_round_equals_time_taken_at_once(any_stream, ledger_of, data):
    turn = ledger_of(data.draw(any_stream)).lanes[0].turns[0]
    n_devices = len(turn.lane.devices)
    kept_up = TurnTimeSum(n_devices)
    for n in range(len(turn.rounds) + 1):
        kept_up.of(turn.rounds[:n])
        assert kept_up.of(turn.rounds[:n]) == turn_time(turn.rounds[:n], n_devices)
    time = turn.time()
    assert time.shares == shares(turn.rounds)
    assert time.busy_ns == tuple(busy_ns(turn.rounds, device) for device in range(n_devices))


def test_time_of_some_rounds_sees_a_span_that_reaches_in(stream, plan, ledger_of):
    """Round 0's late branch draft runs 0.5 ms into round 1, which then drafts 2, verifies 4 and accepts 0.1 ms."""
    turn = ledger_of(stream([plan(1, outcome="late"), plan(0)])).lanes[0].turns[0]
    time = turn_time(turn.rounds, 2, first=1)
    assert (time.shares.draft_ns, time.shares.other_ns) == (2_500_000, 0)
    assert time.busy_ns == (4_100_000, 2_500_000 + 3_000_000)


def test_time_of_no_rounds_is_nothing():
    time = turn_time((), 2)
    assert (time.shares.total_ns, time.busy_ns, time.n_bytes, time.drain_ns) == (0, (0, 0), (0, 0), 0)
