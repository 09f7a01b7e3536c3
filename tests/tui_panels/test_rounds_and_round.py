from __future__ import annotations

import re

from msgspec.structs import replace

from specmon.core.events import AnyEvent, Round, TurnEnd
from specmon.tui.view import View
from specmon.tui.widgets.round_panel import render_round
from specmon.tui.widgets.rounds_panel import render_rounds

from .conftest import fed, texts
from .streams import StreamBuilder, ssd_stream

LETTERS = list("abcdefghijklmnop")
OUTCOMES = [(2, True), (0, False), (4, True), (1, True)]


def played(outcomes: list[tuple[int, bool]] = OUTCOMES) -> list[AnyEvent]:
    return StreamBuilder("ssd", words=LETTERS).header().turn("Say it.", first="X").play(outcomes).events


def changed(events: list[AnyEvent], position: int, **changes: object) -> list[AnyEvent]:
    """The stream with other fields in one of its rounds."""
    rounds = [i for i, event in enumerate(events) if isinstance(event, Round)]
    old = events[rounds[position]]
    fields = {name: getattr(old, name) for name in old.__struct_fields__}
    new = list(events)
    new[rounds[position]] = Round(**{**fields, **changes})
    return new


def test_rounds_panel_lists_the_newest_first() -> None:
    lines = texts(render_rounds(View(ledger=fed(played())), 88, 12))
    assert [line.split()[1] for line in lines[2:6]] == ["3", "2", "1", "0"]


def test_rounds_panel_tells_where_each_draft_came_from() -> None:
    lines = texts(render_rounds(View(ledger=fed(played())), 88, 12))
    sources = [line.split()[-5] for line in lines[2:6]]
    assert sources[0].startswith("◆4·b")
    assert sources[1] == "◇rank"
    assert sources[2].startswith("◆2·b")
    assert sources[3] == "draft"


def test_rounds_panel_gives_times_overlap_and_waste() -> None:
    lines = texts(render_rounds(View(ledger=fed(played())), 88, 12))
    assert lines[2].split()[-4:] == ["3.93", "3.90", "1.89", "│"]
    assert lines[4].split()[-2:] == ["1.89×", "│"]  # round 1 missed: its branches were for nothing


def test_rounds_panel_judges_no_token_past_the_first_rejection() -> None:
    line = texts(render_rounds(View(ledger=fed(played())), 88, 12))[5]
    assert (line.count("✓"), line.count("✗"), line.count("–")) == (2, 1, 1)


def test_rounds_panel_shows_the_pinned_round_on_its_own_ground() -> None:
    view = View(ledger=fed(ssd_stream(100)), selected=20)
    lines = render_rounds(view, 88, 12)
    pinned = [line for line in lines if any(role.endswith("@selected") for _, role in line)]
    assert len(pinned) == 1
    assert texts(pinned)[0].split()[1:3] == ["▶", "20"]


def test_rounds_panel_shows_spaces_of_a_token_that_is_nothing_else() -> None:
    words = ["    "] * 16
    events = StreamBuilder("ssd", words=words).header().turn().play([(2, True)]).events
    assert "␣␣␣␣" in texts(render_rounds(View(ledger=fed(events)), 88, 12))[2]


def test_rounds_panel_of_ar_has_no_draft_columns() -> None:
    events = StreamBuilder("ar").header().turn().rounds(4).events
    head = texts(render_rounds(View(ledger=fed(events)), 88, 12))[1]
    assert "draft" not in head
    assert "ovl" not in head
    assert "verify" in head


def test_rounds_panel_leaves_columns_out_where_it_is_narrow() -> None:
    ledger = fed(played())
    head = texts(render_rounds(View(ledger=ledger), 44, 12))[1]
    assert "a/K" in head
    assert "ovl" not in head


def test_round_panel_marks_the_branch_that_came_true() -> None:
    body = texts(render_round(View(ledger=fed(played()), selected=0), 84, 12))
    hit = next(line for line in body if "◆ a=2" in line)
    assert "HIT: the draft of round 1" in hit
    assert "a 2/4  next ◆ hit" in body[0]
    assert sum(line.count("◆ a=") for line in body) == 1


def test_round_panel_says_why_a_miss_missed() -> None:
    events = played()
    assert "◇ a=0" in "\n".join(texts(render_round(View(ledger=fed(events), selected=1), 84, 12)))
    for miss, words in (
        ("rank", "none of the guesses"),
        ("late", "not finished in time"),
        ("none", "no branches"),
    ):
        shown = texts(render_round(View(ledger=fed(changed(events, 1, miss=miss)), selected=1), 100, 12))
        assert words in "\n".join(shown)
        assert f"miss: {miss}" in shown[0]


def test_round_panel_names_late_branches() -> None:
    events = played()
    round_ = next(event for event in events if isinstance(event, Round))
    late = tuple(
        type(b)(b.accepted_len, b.bonus, b.rank, b.probability, b.tokens, None) for b in round_.branches
    )
    body = texts(render_round(View(ledger=fed(changed(events, 0, branches=late)), selected=0), 84, 14))
    assert any("not finished in time" in line for line in body)


def test_round_panel_gives_kv_cursor_and_rank() -> None:
    body = "\n".join(texts(render_round(View(ledger=fed(played()), selected=0), 100, 12)))
    assert "KV 84 → 87, cursor back 2" in body
    assert "at position 3" in body


def test_round_panel_lists_spans_in_microseconds() -> None:
    body = "\n".join(texts(render_round(View(ledger=fed(played()), selected=1), 84, 12)))
    assert "0 verify 3,900" in body
    assert "0 branch_draft 1,890 on cuda:1" in body
    assert "3,900 accept 22" in body
    assert "host launches 3" in "\n".join(
        texts(render_round(View(ledger=fed(played()), selected=1), 120, 14))
    )


def test_round_panel_with_room_lists_every_branch() -> None:
    body = texts(render_round(View(ledger=fed(played()), selected=0), 100, 40))
    assert sum(" → '" in line and " a=" in line for line in body) == 16


def test_round_panel_in_three_lines_keeps_draft_branch_and_times() -> None:
    rule, draft, branches = texts(render_round(View(ledger=fed(played()), selected=0), 80, 3))
    assert rule.startswith("─ 3 round 0 ")
    assert "a 2/4  next ◆ hit" in rule
    assert draft.count("✓") == 2
    assert "bonus '" in draft
    assert branches.startswith(" branches 16 → ◆ a=2")
    assert branches.rstrip().endswith("verify 3.90  overlap 1.89")


def test_round_panel_follows_the_newest_and_says_of_how_many() -> None:
    ended = fed([*played(), TurnEnd(t=10**9, stop_reason="length", n_tokens=9, rounds=4)])
    assert "newest of 4" in texts(render_round(View(ledger=ended), 84, 12))[0]
    assert "newest" not in texts(render_round(View(ledger=fed(played()), selected=3), 84, 12))[0]


def test_round_panel_says_one_of_how_many_passed_since_the_last_refresh() -> None:
    """Rounds of about 4.8 ms: 52 pass in a quarter of a second; slow rounds are each shown."""
    title = texts(render_round(View(ledger=fed(played())), 84, 12))[0]
    assert "1 of 52 · p pins" in title
    assert "pinned" in texts(render_round(View(ledger=fed(played()), selected=2), 84, 12))[0]
    slow = [replace(e, t1=e.t0 + 400_000_000) if isinstance(e, Round) else e for e in played()]
    assert "newest of 4" in texts(render_round(View(ledger=fed(slow)), 84, 12))[0]


def test_round_panel_of_ar_drafts_nothing() -> None:
    events = StreamBuilder("ar").header().turn().rounds(4).events
    body = "\n".join(texts(render_round(View(ledger=fed(events)), 84, 10)))
    assert "none: the target decoded one token" in body
    assert "branch" not in body


def test_round_panel_tells_a_kept_drafted_end_from_a_removed_id() -> None:
    events = played()
    kept_end = changed(events, 3, bonus=None, emitted=(1,), text=("b",))
    assert "generation stopped in the draft" in "\n".join(
        texts(render_round(View(ledger=fed(kept_end)), 84, 12))
    )
    removed = changed(events, 3, bonus=None, emitted=(None, None), text=("", ""))
    assert "bonus   '#?'" in "\n".join(texts(render_round(View(ledger=fed(removed)), 84, 12)))


def test_round_panel_judges_a_tree_by_its_path() -> None:
    tree = changed(
        played(),
        3,
        draft=(1, 2, 3, 4),
        parents=(-1, -1, 1, 0),
        accepted_path=(1, 2),
        accepted_len=2,
        draft_probs=(),
    )
    _, first, second, *_ = texts(render_round(View(ledger=fed(tree)), 84, 12))
    assert first.startswith("│ depth 1 ")
    assert re.findall(r"\d (.)'", first) == ["✗", "✓"]
    assert re.findall(r"\d (.)'", second) == ["✓", "–"]
    assert second.index("after 2") < second.index("after 1")


def test_round_panel_with_room_gives_its_spans_as_a_table() -> None:
    body = texts(render_round(View(ledger=fed(played()), selected=1), 110, 40))
    head = next(i for i, line in enumerate(body) if "took" in line)
    assert [line.split()[1:6] for line in body[head + 1 : head + 3]] == [
        ["verify", "cuda:0", "0", "3,900", "3,900"],
        ["branch_draft", "cuda:1", "0", "1,890", "1,890"],
    ]
    assert "host launches 3" in body[head + 6]
