import msgspec


def test_fates_tell_token_one_accepted_and_bonus_apart(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(2), plan(0)], decoder="sd")).lanes[0].turns[0]
    assert [(f.fate, f.round_index) for f in turn.token_fates()] == [
        ("first", -1),
        ("accepted", 0),
        ("accepted", 0),
        ("bonus", 0),
        ("bonus", 1),
    ]
    assert "".join(f.text for f in turn.token_fates()) == turn.text


def test_fates_mark_rounds_that_came_from_a_branch(stream, plan, ledger_of):
    plans = [plan(1, outcome="hit"), plan(1, outcome="rank"), plan(0)]
    turn = ledger_of(stream(plans)).lanes[0].turns[0]
    assert [f.branch_hit for f in turn.token_fates()] == [False, False, False, True, True, False]


def test_fates_mark_a_truncated_round_as_accepted_only(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(3)], decoder="sd", stop_after=2)).lanes[0].turns[0]
    assert [f.fate for f in turn.token_fates()] == ["first", "accepted", "accepted"]


def test_held_back_text_follows_as_one_more_fate(stream, plan, ledger_of):
    *events, end = stream([plan(0)], decoder="sd")
    turn = ledger_of([*events, msgspec.structs.replace(end, text="é")]).lanes[0].turns[0]
    fates = turn.token_fates()
    assert turn.token_fates() is fates
    assert (fates[-1].text, fates[-1].fate, fates[-1].round_index) == ("é", "bonus", 0)
    assert turn.text.endswith("é")


def test_origin_names_the_branch_the_reason_or_the_drafter(stream, plan, ledger_of):
    plans = [plan(2, outcome="hit"), plan(1, outcome="late"), plan(0, outcome="rank"), plan(4)]
    turn = ledger_of(stream(plans)).lanes[0].turns[0]
    first, hit, late, rank = (turn.origin(i) for i in range(4))
    assert (first.kind, first.drafter) == ("draft", "draft_model")
    assert (hit.kind, hit.accepted_len, hit.ordinal) == ("hit", 2, 1)
    assert hit.branch is not None
    assert hit.branch.tokens == turn.rounds[1].draft
    assert (late.kind, late.reason, late.accepted_len) == ("miss", "late", 1)
    assert (rank.kind, rank.reason, rank.drafter) == ("miss", "rank", "draft_model")


def test_origin_of_ar_is_none(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(0)], decoder="ar")).lanes[0].turns[0]
    assert turn.origin(0).kind == "none"


def test_origin_of_a_hit_without_recorded_branches_is_still_a_hit(stream, plan, ledger_of):
    events = [
        msgspec.structs.replace(e, branches=()) if getattr(e, "branches", ()) else e
        for e in stream([plan(2), plan(1)])
    ]
    origin = ledger_of(events).lanes[0].turns[0].origin(1)
    assert (origin.kind, origin.branch, origin.ordinal) == ("hit", None, None)
