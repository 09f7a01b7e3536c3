import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.events import Round, Span
from specmon.core.metrics.spans import (
    Overlap,
    busy_ns,
    intersect,
    measure,
    merge,
    overlap,
    shares,
    verify_ns,
)

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def instants(items):
    """The same intervals as a set of instants: slow and plainly right."""
    return {instant for start, end in items for instant in range(start, end)}


@given(intervals)
def test_merge_covers_the_same_instants_once(items):
    merged = merge(items)
    assert measure(merged) == len(instants(items))
    assert instants(merged) == instants(items)
    assert all(a[1] < b[0] for a, b in zip(merged, merged[1:], strict=False))  # noqa: RUF007


@given(intervals, intervals)
def test_intersect_keeps_the_common_instants(a, b):
    assert instants(intersect(merge(a), merge(b))) == instants(a) & instants(b)


def round_with(spans, *, index=0, t0=0, t1=100, hit=None):
    return Round(
        t=t1,
        index=index,
        t0=t0,
        t1=t1,
        requested_k=0,
        drafter=None,
        draft=(),
        accepted_len=0,
        bonus=1,
        emitted=(1,),
        text=("a",),
        spans=tuple(Span(*span) for span in spans),
        hit=hit,
    )


def test_shares_by_hand():
    """Draft 0-20, verify 15-60, accept 60-65, handoff 63-70, wait 80-90 of 100."""
    time = shares(
        [
            round_with(
                [
                    (1, "d", "draft", 0, 20, 0),
                    (0, "m", "verify", 15, 60, 0),
                    (0, "m", "accept", 60, 65, 0),
                    (1, "d", "handoff", 63, 70, 0),
                    (1, "d", "wait", 10, 90, 0),
                ]
            )
        ]
    )
    parts = (time.draft_ns, time.verify_ns, time.accept_ns, time.wait_ns, time.other_ns)
    assert parts == (15, 45, 10, 20, 10)
    assert sum(parts) == time.total_ns == 100


def test_branch_draft_hidden_by_verification_is_not_exposed():
    time = shares([round_with([(0, "m", "verify", 0, 100, 0), (1, "d", "branch_draft", 0, 90, 1)])])
    assert (time.verify_ns, time.draft_ns) == (100, 0)


def test_shares_leave_out_the_time_between_a_lanes_turns():
    first = round_with([(0, "m", "verify", 0, 100, 0)])
    second = round_with([(0, "m", "verify", 500, 600, 1)], index=1, t0=500, t1=600)
    time = shares([first, second])
    assert (time.total_ns, time.verify_ns, time.other_ns) == (200, 200, 0)


def test_overlap_counts_busy_kinds_only():
    spans = [
        (0, "m", "verify", 0, 80, 0),
        (1, "d", "wait", 0, 40, 0),
        (1, "d", "handoff", 40, 50, 0),
        (1, "d", "branch_draft", 50, 90, 1),
    ]
    assert overlap([round_with(spans, hit=0)], 2) == Overlap(total_ns=30, used_ns=30, wasted_ns=0)


def test_devices_that_share_a_verification_do_not_overlap():
    spans = [(0, "m", "verify", 0, 60, 0), (1, "m", "verify", 0, 60, 0)]
    drafting = (2, "d", "draft", 10, 20, 0)

    assert overlap([round_with(spans)], 3) == Overlap(total_ns=0, used_ns=0, wasted_ns=0)
    assert overlap([round_with([*spans, drafting])], 3) == Overlap(total_ns=10, used_ns=10, wasted_ns=0)


def test_overlap_is_wasted_where_the_round_missed():
    verify, branch = (0, "m", "verify", 0, 80, 0), (1, "d", "branch_draft", 10, 50, 1)
    assert overlap([round_with([verify, branch])], 2) == Overlap(total_ns=40, used_ns=0, wasted_ns=40)


def test_overlap_of_a_late_branch_belongs_to_the_round_it_was_prepared_in():
    """Round 0 hits, round 1 does not; a branch for round 1 recorded with round 1 is still of use."""
    first = round_with([(0, "m", "verify", 0, 90, 0)], hit=0)
    late = (1, "d", "branch_draft", 60, 120, 1)
    second = round_with([late, (0, "m", "verify", 100, 190, 1)], index=1, t0=100, t1=200)
    assert overlap([first, second], 2) == Overlap(total_ns=50, used_ns=50, wasted_ns=0)


def test_overlap_does_not_apply_to_one_device(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(2)] * 3, decoder="sd", devices=("cuda:0",))).lanes[0].turns[0]
    assert overlap(turn.rounds, 1) is None


def test_sd_on_two_devices_overlaps_nothing(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(2)] * 3, decoder="sd")).lanes[0].turns[0]
    assert overlap(turn.rounds, 2) == Overlap(total_ns=0, used_ns=0, wasted_ns=0)


def test_busy_time_stays_inside_the_rounds():
    spans = [(1, "d", "branch_draft", 50, 250, 1), (1, "d", "handoff", 0, 40, 0)]
    assert busy_ns([round_with(spans)], 1) == 50
    assert busy_ns([round_with(spans)], 0) == 0


def test_verify_time_of_a_round_joins_its_spans():
    assert verify_ns(round_with([(0, "m", "verify", 0, 40, 0), (0, "n", "verify", 30, 70, 0)])) == 70


@pytest.mark.parametrize("outcome", ["hit", "rank", "late"])
def test_overlap_by_hand_for_each_outcome(stream, plan, ledger_of, outcome):
    """Verify 4 ms beside 3 ms of branch drafting; a late one runs on through verify and accept (4.1 ms)."""
    turn = ledger_of(stream([plan(1, outcome=outcome), plan(0)])).lanes[0].turns[0]
    of_first = overlap(turn.rounds[:1], 2)
    assert of_first is not None
    assert of_first.total_ns == (4_100_000 if outcome == "late" else 3_000_000)
    assert of_first.used_ns == (3_000_000 if outcome == "hit" else 0)


@given(data=st.data())
def test_shares_tile_and_overlap_splits_on_any_stream(any_stream, ledger_of, data):
    turn = ledger_of(data.draw(any_stream)).lanes[0].turns[0]
    time = shares(turn.rounds)
    assert time.total_ns == turn.decode_ns
    parts = (time.verify_ns, time.accept_ns, time.draft_ns, time.wait_ns, time.other_ns)
    assert min(parts) >= 0
    assert sum(parts) == time.total_ns
    both = overlap(turn.rounds, 2)
    assert both is not None
    assert both.used_ns + both.wasted_ns == both.total_ns
    assert both.used_ns >= 0
    assert both.total_ns <= min(busy_ns(turn.rounds, 0), turn.decode_ns)
