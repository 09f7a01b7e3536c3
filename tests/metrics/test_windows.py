import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.events import Round


def test_window_closes_at_the_round_that_reaches_its_size(stream, plan, ledger_of):
    """3 + 1 + 5 + 2 tokens: windows of 4 hold 4 and 5, and the last 2 stay open."""
    turn = ledger_of(stream([plan(2), plan(0), plan(4), plan(1)], decoder="sd")).lanes[0].turns[0]
    first, second = turn.windows(4)
    assert (first.first_round, first.last_round, first.n_tokens, first.ns) == (0, 1, 4, 12_200_000)
    assert (second.first_round, second.last_round, second.n_tokens, second.ns) == (2, 2, 5, 6_100_000)
    assert first.ms_per_token == 12.2 / 4
    assert second.cumulative_ms_per_token == 18.3 / 9
    assert first.tokens_per_round == 2.0


def test_window_stands_at_its_kv_position(stream, plan, ledger_of):
    events = stream([plan(2), plan(0)], decoder="sd", prompt_tokens=10)
    (window,) = ledger_of(events).lanes[0].turns[0].windows(4)
    without = [msgspec.structs.replace(e, kv_len=()) if isinstance(e, Round) else e for e in events]
    (counted,) = ledger_of(without).lanes[0].turns[0].windows(4)
    assert window.kv_len == counted.kv_len == 14


def test_window_of_no_tokens_is_refused(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(2)])).lanes[0].turns[0]
    with pytest.raises(ValueError, match="at least 1"):
        turn.windows(0)


def test_windows_of_a_conversation_leave_out_the_one_before(stream, plan, ledger_of):
    plans = [plan(3)] * 2
    first = stream(plans, decoder="sd", prompt_tokens=10)
    goes_on = stream(plans, decoder="sd", turn=1, prompt_tokens=30, reused_tokens=17)
    unrelated = stream(plans, decoder="sd", turn=2, prompt_tokens=30, reused_tokens=5)
    assert len(ledger_of([*first, *goes_on[2:]]).lanes[0].conversation_windows(4)) == 4
    assert len(ledger_of([*first, *goes_on[2:], *unrelated[2:]]).lanes[0].conversation_windows(4)) == 2
    assert ledger_of(first[:2]).lanes[0].conversation_windows(4) == []


@given(data=st.data(), size=st.integers(1, 9))
def test_windows_fed_piecewise_equal_windows_read_at_once(any_stream, ledger_of, data, size):
    events = data.draw(any_stream)
    ledger = ledger_of([])
    for event in events:
        ledger.feed(event)
        for lane in ledger.lanes.values():
            for turn in lane.turns:
                turn.windows(size)
    turn = ledger.lanes[0].turns[0]
    windows = turn.windows(size)
    assert windows == ledger_of(events).lanes[0].turns[0].windows(size)
    assert all(w.n_tokens >= size for w in windows)
    assert all(w.n_tokens - len(turn.rounds[w.last_round].emitted) < size for w in windows)
    covered = [i for w in windows for i in range(w.first_round, w.last_round + 1)]
    assert covered == list(range(len(covered)))
