"""Each identity is broken by changing one field of a valid stream, and must then be reported in place."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.events import Branch, Gap, Header, Lane, Prefill, PrefillChunk, Round, Span, Turn, TurnEnd
from specmon.core.metrics.validate import MAX_PROBLEMS, Validator


def report_of(events):
    validator = Validator()
    for event in events:
        validator.feed(event)
    return validator.finish()


def changed(events, at, /, **fields):
    """The stream with other fields in the round with index `at`."""
    return [
        msgspec.structs.replace(e, **fields) if isinstance(e, Round) and e.index == at else e for e in events
    ]


def rounds(events):
    return [e for e in events if isinstance(e, Round)]


@pytest.fixture
def ssd(stream, plan):
    """Round 0 hits with 2 of 4, round 1 misses by rank with 1, round 2 late with 4, round 3 hits with 0."""
    outcomes = [(2, "hit"), (1, "rank"), (4, "late"), (0, "hit"), (3, "hit")]
    return stream([plan(accepted, outcome=outcome) for accepted, outcome in outcomes])


@given(data=st.data())
def test_valid_streams_have_no_problem(any_stream, data):
    report = report_of(data.draw(any_stream))
    assert (report.problems, report.notes) == ((), ())
    assert report.ok


def test_valid_race_has_no_problem(race_stream, plan):
    lanes = [([plan(0)] * 20, {"decoder": "ar"}), ([plan(2)] * 20, {"decoder": "ssd"})]
    assert report_of(race_stream(lanes)).problems == ()


BROKEN = [
    ({"accepted_len": 5}, "accepted_len 5 is outside 0..4"),
    ({"accepted_len": -1}, "accepted_len -1 is outside 0..4"),
    ({"requested_k": 3}, "drafted 4 tokens but 3 were requested"),
    ({"text": ("a",)}, "has 1 texts for 2 emitted tokens"),
    ({"emitted": (7, 8)}, "emitted other tokens than the accepted ones it drafted"),
    ({"bonus": 9}, "where its bonus is 9"),
    ({"emitted": (), "text": ()}, "emitted nothing"),
    ({"draft_probs": (0.5,)}, "has 1 probabilities for 4 draft nodes"),
    ({"index": 7}, "comes where round 1 was due"),
    ({"hit": 0}, "is both a hit and a miss"),
    ({"hit": 99, "miss": None}, "hit branch 99 of 10"),
    ({"miss": "late"}, "missed for late though no branch"),
    ({"miss": None}, "whose branches neither hit nor missed"),
    ({"parents": (-1, 0)}, "has 2 parents for 4 draft nodes"),
    ({"parents": (-1, 0, 5, 0)}, "parent does not come before it"),
    ({"parents": (-1, 0, 1, 2), "accepted_path": (2,)}, "accepted node 2 that is no child of node -1"),
    ({"kv_len": (999,)}, "moved the target's KV cursor by"),
]


@pytest.mark.parametrize(("fields", "sentence"), BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_broken_round_is_reported(ssd, fields, sentence):
    report = report_of(changed(ssd, 1, **fields))
    assert any(sentence in problem for problem in report.problems), report.problems


def test_problem_says_where_it_is(ssd):
    (problem,) = report_of(changed(ssd, 1, text=("a", "b", "c"))).problems
    assert problem == "lane 0 turn 0 round 1: has 3 texts for 2 emitted tokens"


def test_hit_must_be_the_outcome(ssd):
    before = rounds(ssd)[0]
    wrong = next(i for i, b in enumerate(before.branches) if b.accepted_len == 3)
    report = report_of(changed(ssd, 0, hit=wrong))
    assert any("hit a branch for (3," in problem for problem in report.problems)


def test_draft_after_a_hit_must_be_the_branch(ssd):
    hit = rounds(ssd)[0].hit
    branches = list(rounds(ssd)[0].branches)
    b = branches[hit]
    branches[hit] = Branch(b.accepted_len, b.bonus, b.rank, b.probability, (1, 2, 3, 4), b.ready_at)
    (problem,) = report_of(changed(ssd, 0, branches=tuple(branches))).problems
    assert problem.endswith("round 1: drafted other tokens than the branch that round 0 hit")


def test_hit_branch_kept_by_key_alone_is_no_problem(ssd):
    keys = [Branch(b.accepted_len, b.bonus, b.rank, None, (), b.ready_at) for b in rounds(ssd)[0].branches]
    assert report_of(changed(ssd, 0, branches=tuple(keys))).problems == ()


def test_branch_cut_to_a_shorter_request_is_no_problem(ssd):
    shorter = changed(ssd, 1, requested_k=3, draft=rounds(ssd)[1].draft[:3])
    branches = tuple(b for b in rounds(ssd)[1].branches if b.accepted_len <= 3)
    assert report_of(changed(shorter, 1, branches=branches)).problems == ()


def test_hit_that_was_never_ready_is_reported(ssd):
    branches = [
        Branch(b.accepted_len, b.bonus, b.rank, b.probability, b.tokens, None)
        for b in rounds(ssd)[0].branches
    ]
    (problem,) = report_of(changed(ssd, 0, branches=tuple(branches))).problems
    assert problem.endswith("hit a branch that was never ready")


def test_two_branches_for_one_outcome_are_reported(ssd):
    first, *others = rounds(ssd)[1].branches
    (problem,) = report_of(changed(ssd, 1, branches=(first, first, *others[1:]))).problems
    assert problem.endswith("prepared two branches for one outcome")


def test_sd_round_with_a_hit_is_reported(stream, plan):
    events = stream([plan(1)] * 3, decoder="sd")
    (problem,) = report_of(changed(events, 1, hit=0)).problems
    assert problem.endswith("has branches, a hit or a miss under SD")


@pytest.mark.parametrize(
    ("delta", "sentence"), [(-5, "starts 5 ns before round 1 ends"), (5, "leaves 5 ns after")]
)
def test_rounds_must_tile(stream, plan, delta, sentence):
    events = stream([plan(0)] * 4, decoder="ar")
    at = rounds(events)[2]
    spans = tuple(s for s in at.spans if s.kind != "verify")
    (problem,) = report_of(changed(events, 2, t0=at.t0 + delta, spans=spans)).problems
    assert sentence in problem


def test_overlapping_rounds_are_reported_in_a_race_too(race_stream, plan):
    events = race_stream([([plan(0)] * 8, {"decoder": "ar"})] * 2)
    broken = [
        msgspec.structs.replace(e, t0=e.t0 - 1) if isinstance(e, Round) and (e.lane, e.index) == (1, 3) else e
        for e in events
    ]
    (problem,) = report_of(broken).problems
    assert problem.startswith("lane 1 turn 0 round 3: starts 1 ns before")


def test_lane_clock_that_holds_another_lanes_time_is_reported(race_stream, plan):
    """Lane 1's first round seems to start where its prefill ended, though lane 0 decoded in between."""
    events = race_stream([([plan(0)] * 8, {"decoder": "ar"})] * 2)
    end = next(e.t for e in events if isinstance(e, Prefill) and e.lane == 1)
    stretched = [
        msgspec.structs.replace(e, t0=end) if isinstance(e, Round) and (e.lane, e.index) == (1, 0) else e
        for e in events
    ]
    (problem,) = report_of(stretched).problems
    assert problem == "lane 1 turn 0 round 0: starts 32800000 ns before lane 0's turn was over"


def test_stopping_inside_a_round_is_allowed_once_at_the_end(stream, plan):
    events = stream([plan(3), plan(3)], decoder="sd", stop_after=2)
    assert report_of(events).ok
    cut = changed(events, 0, emitted=rounds(events)[0].emitted[:2], text=("a", "b"))
    problems = report_of(cut).problems
    assert any("round 0: emitted 2 tokens, not accepted_len + 1 = 4, and another" in p for p in problems)


def test_kept_drafted_eos_has_no_bonus(stream, plan):
    events = stream([plan(1), plan(3)], decoder="sd", stop_after=2, stop_reason="eos")
    assert report_of(changed(events, 1, bonus=None)).ok


def test_discarded_rounds_count_in_no_total(stream, plan):
    *events, end = stream([plan(1)] * 4, decoder="sd")
    discarded = changed(events, 3, discarded=True)
    right = msgspec.structs.replace(end, rounds=3, n_tokens=end.n_tokens - 2)
    assert report_of([*discarded, right]).ok
    assert len(report_of([*discarded, end]).problems) == 2
    between = report_of([*changed(discarded[:-1], 2, discarded=True), events[-1], right]).problems
    assert any("follows a discarded round" in problem for problem in between)


SPANS = [
    ((0, "main", "verify", -5, 10, 1), "leaves the round's time"),
    ((0, "x", "accept", 10, 5, 1), "ends before it starts"),
    ((7, "x", "accept", 5, 10, 1), "though the lane has 2 devices"),
    ((0, "x", "accept", 5, 10, 5), "for round 5"),
    ((0, "x", "verify", 5, 10, 2), "for round 2"),
    ((0, "main", "accept", 5, 10, 1), "overlaps another on stream main of device 0"),
]


@pytest.mark.parametrize(("span", "sentence"), SPANS, ids=[sentence for _, sentence in SPANS])
def test_insane_span_is_reported(ssd, span, sentence):
    at = rounds(ssd)[1]
    device, stream_name, kind, start, end, for_round = span
    bad = Span(device, stream_name, kind, at.t0 + start, at.t0 + end, for_round)
    report = report_of(changed(ssd, 1, spans=(*at.spans, bad)))
    assert any(sentence in problem for problem in report.problems), report.problems


def test_totals_of_the_engine_must_agree(ssd):
    *events, end = ssd
    problems = report_of([*events, msgspec.structs.replace(end, n_tokens=3, rounds=99)]).problems
    assert [p.split(": ")[1] for p in problems] == [
        f"the engine counted 3 tokens, the events hold {end.n_tokens}",
        f"the engine counted 99 rounds, the events hold {end.rounds}",
    ]


def test_length_stop_must_be_at_the_limit(stream, plan):
    assert report_of(stream([plan(0)] * 4, decoder="ar", max_new_tokens=5)).ok
    assert (
        "more than the 4 asked for"
        in report_of(stream([plan(0)] * 4, decoder="ar", max_new_tokens=4)).problems[0]
    )
    assert "5 of 6 tokens" in report_of(stream([plan(0)] * 4, decoder="ar", max_new_tokens=6)).problems[0]


def test_prefill_must_cover_the_prompt(stream, plan):
    events = stream([plan(0)], decoder="ar")
    short = [
        msgspec.structs.replace(e, chunks=(PrefillChunk(0, 4, 0, 5), PrefillChunk(5, 4, 5, 9)))
        if isinstance(e, Prefill)
        else e
        for e in events
    ]
    assert [p.split(": ")[1] for p in report_of(short).problems] == [
        "a prefill chunk starts at 5, not at 4",
        "prefill ends at 9 of 10 prompt tokens",
    ]


@pytest.mark.parametrize(
    ("dropped", "sentence"),
    [
        (Header, "the stream starts with Lane, not with Header"),
        (Lane, "a turn of a lane that was never described"),
        (Turn, "Prefill outside its turn"),
        (Prefill, "a round before token one"),
    ],
)
def test_missing_start_is_reported(ssd, dropped, sentence):
    problems = report_of([e for e in ssd if not isinstance(e, dropped)]).problems
    assert any(sentence in problem for problem in problems)


def test_second_header_prefill_or_turn_is_reported(ssd):
    header, lane, turn, prefill, *rest = ssd
    again = report_of([header, header, lane, turn, prefill, prefill, *rest, turn]).problems
    assert [p.split(": ")[1] for p in again] == ["a second Header", "a second Prefill", "comes after turn 0"]


def test_torn_stream_is_noted_not_blamed(ssd):
    report = report_of(ssd[:-2])
    assert report.ok
    assert report.notes == ("lane 0 turn 0 has no end: its totals were not checked",)


def test_gap_is_noted_and_what_it_hides_is_not_blamed(ssd):
    without = [e for e in ssd if not (isinstance(e, Round) and e.index == 2)]
    assert not report_of(without).ok
    at = without.index(rounds(ssd)[3])
    report = report_of([*without[:at], Gap(t=0, count=1, reason="disk full"), *without[at:]])
    assert report.problems == ()
    assert report.notes == ("a gap: 1 events are missing (disk full)",)


def test_redacted_stream_is_checked_as_far_as_it_goes(ssd):
    def redact(event):
        if not isinstance(event, Round):
            return event
        branches = tuple(Branch(b.accepted_len, None, b.rank, None, (), b.ready_at) for b in event.branches)
        n = len(event.emitted)
        return msgspec.structs.replace(
            event,
            draft=(None,) * len(event.draft),
            emitted=(None,) * n,
            bonus=None,
            text=("",) * n,
            branches=branches,
        )

    redacted = [redact(e) for e in ssd]
    report = report_of(redacted)
    assert report.problems == ()
    assert report.notes == (
        "emitted tokens: not checkable: redacted",
        "branch outcomes: not checkable: redacted",
    )
    assert not report_of(changed(redacted, 1, accepted_len=9)).ok


def test_empty_stream_is_noted():
    report = report_of([])
    assert report.ok
    assert (report.notes, report.n_events) == (("no events",), 0)


def test_endless_problems_are_counted_not_kept(stream, plan):
    events = stream([plan(0)] * (MAX_PROBLEMS + 50), decoder="ar")
    bad = [msgspec.structs.replace(e, text=()) if isinstance(e, Round) else e for e in events]
    report = report_of(bad)
    assert len(report.problems) == MAX_PROBLEMS
    assert report.n_problems == MAX_PROBLEMS + 50


def test_wrong_end_is_a_problem_of_its_turn(ssd):
    stray = TurnEnd(t=0, lane=0, turn=5, stop_reason="eos", n_tokens=1, rounds=0)
    assert report_of([*ssd, stray]).problems == ("lane 0 turn 5: TurnEnd outside its turn",)
