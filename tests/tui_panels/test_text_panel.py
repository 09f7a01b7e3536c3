from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmon.core.events import AnyEvent, TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.tui.view import View
from specmon.tui.widgets.cells import width
from specmon.tui.widgets.glyphs import UNICODE
from specmon.tui.widgets.lines import Line, line_width, plain
from specmon.tui.widgets.text_flow import TextFlow
from specmon.tui.widgets.text_panel import render_text, text_body
from specmon.tui.widgets.text_state import TextState

from .conftest import fed, texts
from .streams import StreamBuilder, ssd_stream

LETTERS = list("abcdefghijklmnop")


def turn(outcomes: list[tuple[int, bool]], words: list[str] = LETTERS) -> list[AnyEvent]:
    return StreamBuilder("ssd", words=words).header().turn("Say it.", first="X").play(outcomes).events


def bodies(view: View, width: int = 80, height: int = 9, state: TextState | None = None) -> list[str]:
    """The lines inside the box, without trailing spaces."""
    lines = texts(render_text(view, width, height, state or TextState()))
    return [line[2:-1].rstrip() for line in lines[1:-1]]


def test_text_panel_marks_every_character_with_its_fate() -> None:
    view = View(ledger=fed(turn([(2, True), (0, False), (4, True), (1, True)])))
    prompt, text, fates = bodies(view)[:3]
    assert prompt == "› Say it."
    assert len(text) == 1 + 3 + 1 + 5 + 2 + 1  # token one, four rounds, the cursor
    assert text.startswith("X")
    assert text.endswith("▌")
    assert fates == "▸" + "··+" + "+" + "◇···+" + "◆+"


def test_text_panel_in_ascii_has_other_signs_for_the_same_fates() -> None:
    view = View(ledger=fed(turn([(2, True), (0, False), (4, True), (1, True)])), ascii=True)
    assert bodies(view)[2] == "1" + "..+" + "+" + "o...+" + "*+"


def test_text_panel_hides_fates() -> None:
    view = View(ledger=fed(turn([(2, True)])), fates=False)
    assert bodies(view)[1].startswith("X")
    assert bodies(view)[2] == ""


def test_text_panel_marks_the_selected_round() -> None:
    view = View(ledger=fed(turn([(2, True), (0, False), (4, True), (1, True)])), selected=2)
    lines = render_text(view, 80, 9, TextState())
    assert bodies(view)[2] == "▸··++▲···+◆+"
    ground = [text for text, role in lines[2] if role == "text@selected"]
    assert len("".join(ground)) == 5


def test_text_panel_drops_the_cursor_at_the_end_of_the_turn() -> None:
    events = turn([(2, True)])
    events.append(TurnEnd(t=events[-1].t, stop_reason="cancelled", n_tokens=4, rounds=1))
    assert "▌" not in bodies(View(ledger=fed(events)))[1]


def test_text_panel_shows_text_held_back_until_the_end() -> None:
    events = turn([(2, True)])
    events.append(TurnEnd(t=events[-1].t, stop_reason="cancelled", n_tokens=4, rounds=1, text="!"))
    assert bodies(View(ledger=fed(events)))[1].endswith("!")


def test_text_panel_wraps_at_words_and_keeps_fates_below_them() -> None:
    words = ["alpha ", "beta ", "gamma ", "delta "] * 4
    view = View(ledger=fed(turn([(4, True)] * 6, words)))
    lines = bodies(view, width=33, height=60)[1:]
    rows = list(zip(lines[::2], lines[1::2], strict=False))
    for text, fates in rows:
        assert len(fates) >= len(text.rstrip("▌"))
    words_shown = [word for text, _ in rows for word in text.rstrip("▌").removeprefix("X").split()]
    assert len(words_shown) == 30
    assert set(words_shown) <= {"alpha", "beta", "gamma", "delta"}


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.text("abc 漢", min_size=1, max_size=9), min_size=16, max_size=16),
    cells=st.integers(2, 40),
)
def test_wrapping_neither_joins_nor_loses_words(words: list[str], cells: int) -> None:
    ledger = fed(turn([(4, True)] * 4, words))
    flow = TextFlow(cells, UNICODE)
    flow.extend(ledger.lanes[0].turns[0])
    rows = ["".join(cell.text for cell in row) for row in flow.rows]
    text = ledger.lanes[0].turns[0].text
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
    if all(width(word) <= cells // 2 for word in text.split()):
        assert " ".join(rows).split() == text.split()
    assert all(sum(cell.width for cell in row) <= cells for row in flow.rows)


def test_cursor_never_costs_a_character() -> None:
    view = View(ledger=fed(turn([(0, True)], ["y" * 28] * 16)))
    assert bodies(view, width=32)[1] == "X" + "y" * 28
    assert bodies(view, width=33)[1] == "X" + "y" * 28 + "▌"


def test_newline_after_a_full_row_leaves_no_empty_row() -> None:
    flow = TextFlow(4, UNICODE)
    flow.extend(fed(turn([(0, True)], ["abc\nd"] * 16)).lanes[0].turns[0])
    assert ["".join(cell.text for cell in row) for row in flow.rows] == ["Xabc", "d"]


def test_text_panel_breaks_a_word_longer_than_a_row() -> None:
    view = View(ledger=fed(turn([(4, True)], ["y" * 30] * 16)))
    assert bodies(view, width=33, height=20)[1] == "X" + "y" * 29


def test_text_panel_keeps_wide_characters_whole_at_the_edge() -> None:
    view = View(ledger=fed(turn([(4, True)] * 4, ["漢"] * 16)))
    for line in render_text(view, 32, 14, TextState()):
        assert line_width(line) == 32
    assert bodies(view, width=32)[1] == "X" + "漢" * 14
    assert bodies(view, width=32)[2].startswith("▸· · · ")


def test_text_panel_joins_a_combining_mark_to_the_character_before() -> None:
    view = View(ledger=fed(turn([(4, True)], ["\u0301"] * 16)))
    assert bodies(view)[1] == "X" + "\u0301" * 5 + "▌"


def test_text_panel_breaks_lines_at_newlines_and_marks_them() -> None:
    view = View(ledger=fed(turn([(2, True)], ["a\n"] * 16)))
    assert bodies(view, height=12)[1:8] == ["Xa", "▸··", "a", "··", "a", "++", "▌"]


def test_text_panel_shows_escapes() -> None:
    view = View(ledger=fed(turn([(0, True)], ["\x1b[2J"] * 16)))
    assert bodies(view)[1] == "X␛[2J▌"


def test_text_panel_follows_the_newest_text() -> None:
    state = TextState()
    events = ssd_stream(60)
    ledger = fed(events)
    shown = texts(render_text(View(ledger=ledger), 40, 10, state))
    assert "▌" in "".join(shown)
    assert state.top is None


def test_text_panel_scrolled_up_is_not_yanked_back() -> None:
    state = TextState()
    events = ssd_stream(60)
    ledger = fed(events[:40])
    render_text(View(ledger=ledger), 60, 10, state)
    state.top = 0
    before = bodies(View(ledger=ledger), 60, 10, state)
    for event in events[40:]:
        ledger.feed(event)
    after = render_text(View(ledger=ledger), 60, 10, state)
    assert [plain(line)[2:-1].rstrip() for line in after[1:-1]] == before
    assert "End follows" in plain(after[0])


def test_text_panel_brings_a_selected_round_into_sight() -> None:
    ledger = fed(ssd_stream(200))
    state = TextState()
    view = View(ledger=ledger)
    render_text(view, 40, 10, state)
    shown = "".join(texts(render_text(replace(view, selected=5), 40, 10, state)))
    assert "▲" in shown
    back = "".join(texts(render_text(view, 40, 10, state)))
    assert "▌" in back


def test_text_panel_shows_the_turns_before() -> None:
    builder = StreamBuilder("ssd", words=LETTERS).header().turn("One?", first="A").rounds(2).end()
    builder.turn("Two?", first="B").rounds(2)
    ledger = fed(builder.events)
    shown = "\n".join(bodies(View(ledger=ledger, turn=1), height=20))
    assert shown.index("One?") < shown.index("Two?")
    assert "Two?" not in "\n".join(bodies(View(ledger=ledger, turn=0), height=20))


def test_text_panel_cuts_a_long_prompt() -> None:
    events = StreamBuilder().header().turn("word " * 200).rounds(1).events
    lines = bodies(View(ledger=fed(events)), width=40, height=12)
    assert lines[2].endswith("…")
    assert not lines[3].startswith("  word")


def test_text_panel_lays_out_a_growing_turn_as_a_whole_one() -> None:
    events = ssd_stream(80)
    state = TextState()
    ledger = fed(events[:10])
    for event in events[10:]:
        ledger.feed(event)
        grown = render_text(View(ledger=ledger), 50, 30, state)
    assert grown == render_text(View(ledger=fed(events)), 50, 30, TextState())


# --- ghosts, legend, pointing ------------------------------------------------------------------------------


def test_ghosts_stand_before_the_bonus_that_replaced_them() -> None:
    ledger = fed(StreamBuilder("sd").header().turn().play([(1, False), (4, False)]).events)
    plain_body = text_body(View(ledger=ledger), 60, 20, TextState())
    body = text_body(View(ledger=ledger, ghosts=True), 60, 20, TextState())
    rejected = [text for line in body for text, role in line if role == "rejected" and "✗" not in text]
    signs = "".join(text for line in body for text, _ in line)
    first = ledger.lanes[0].turns[0].rounds[0]
    assert "".join(rejected) == ledger.piece(first.draft[1])
    assert "✗" in signs
    assert "✗" not in "".join(text for line in plain_body for text, _ in line)


def test_ghosts_are_no_part_of_the_text_and_go_again() -> None:
    ledger = fed(ssd_stream(40))
    state = TextState()
    before = text_body(View(ledger=ledger), 60, 20, state)
    assert text_body(View(ledger=ledger, ghosts=True), 60, 20, state) != before
    assert text_body(View(ledger=ledger), 60, 20, state) == before


def test_legend_explains_token_one_and_ghosts() -> None:
    ledger = fed(ssd_stream(10))
    assert "▸ token one" in plain(render_text(View(ledger=ledger), 80, 12, TextState())[0])
    assert "✗ rejected" in plain(render_text(View(ledger=ledger, ghosts=True), 80, 12, TextState())[0])


def test_pointing_at_text_finds_its_round() -> None:
    """Token one is X; round 0 emitted three times "ab ", round 1 twice."""
    ledger = fed(turn([(2, False), (1, False)], words=["ab "] * 8))
    state = TextState()
    body = text_body(View(ledger=ledger), 60, 20, state)
    line = next(i for i, row in enumerate(body) if plain(row).startswith("Xab "))
    assert [state.round_at(line, cell) for cell in (0, 1, 9, 10, 15, 16)] == [None, 0, 0, 1, 1, None]
    assert state.round_at(line + 1, 3) == 0  # its fate line
    assert state.round_at(99, 0) is None


def long_turn(words: list[str], rounds: int = 90) -> list[AnyEvent]:
    return turn([(index % 5, index % 3 > 0) for index in range(rounds)], words)


@pytest.mark.parametrize("words", [["a", " bb", "\n", " ccc"], ["x\n", "y"], ["no newline "]], ids=str)
@pytest.mark.parametrize("cells", [12, 40, 90])
def test_only_the_end_of_a_long_turn_is_laid_out_and_looks_the_same(
    monkeypatch: pytest.MonkeyPatch, words: list[str], cells: int
) -> None:
    events = long_turn((words * 16)[:16])
    ledger, state, grown = fed(events[:30]), TextState(), TextState()
    whole = render_text(View(ledger=fed(events)), cells, 10, TextState())
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
    assert render_text(View(ledger=fed(events)), cells, 10, state) == whole
    for event in events[30:]:
        ledger.feed(event)
        after = render_text(View(ledger=ledger), cells, 10, grown)
    assert after == whole
    laid_out = state.flows[0][1].rows
    assert (sum(map(len, laid_out)) < 200) is ("\n" in "".join(words))


@pytest.mark.parametrize("lines", [6, 12])
def test_a_new_turn_lays_out_only_the_end_of_the_long_one_before(
    monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    builder = (
        StreamBuilder("ssd", words=["a", " bb", "\n", " ccc"] * 4).header().turn("One?").rounds(90).end()
    )
    events = builder.turn("Two?").rounds(3).events
    state = TextState()
    whole = render_text(View(ledger=fed(events), turn=1), 40, lines, TextState())
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 50)
    assert render_text(View(ledger=fed(events), turn=1), 40, lines, state) == whole
    assert 0 not in state.flows or state.flows[0][1].first > 0


def test_a_higher_panel_lays_out_more_of_a_long_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
    view, state = View(ledger=fed(long_turn(["a", " bb", "\n", " ccc"] * 4))), TextState()
    render_text(view, 40, 6, state)
    assert render_text(view, 40, 24, state) == render_text(view, 40, 24, TextState())


def test_scrolling_up_a_long_turn_lays_out_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
    ledger, state = fed(long_turn(["a", " bb", "\n", " ccc"] * 4)), TextState()
    render_text(View(ledger=ledger), 40, 10, state)
    state.top = -1_000
    assert bodies(View(ledger=ledger), 40, 10, state)[0] == "› Say it."
    assert not state.flows[0][1].first
    assert state.top == 0


def scrolled(ledger: Ledger, state: TextState, by: int, selected: int | None = None) -> list[Line]:
    """What stands there after scrolling as the panel does."""
    top = (state.newest if state.top is None else state.top) + by
    state.top = None if top >= state.newest else top
    turn = len(ledger.lanes[0].turns) - 1
    return render_text(View(ledger=ledger, turn=turn, selected=selected), 60, 12, state)


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(
        st.tuples(st.integers(-60, 60), st.sampled_from([0, 0, 1, 9, 70])), min_size=1, max_size=12
    )
)
def test_scrolling_looks_the_same_however_little_is_laid_out(steps: list[tuple[int, int]]) -> None:
    """Rounds go on while the user scrolls, and a new turn may begin."""
    words = ["a", " bb", "\n", " ccc", "dd ee", "\n\n", "f"] * 3
    builder = StreamBuilder("ssd", words=words).header().turn("One?").rounds(90).end().turn("Two?").rounds(40)
    frugal, whole, ledger, seen = TextState(), TextState(), Ledger(), 0
    with pytest.MonkeyPatch.context() as patch:
        for by, rounds in [(0, 0), *steps]:
            if rounds == 70:
                builder.end().turn("Three?")
            for event in (builder.rounds(rounds) if rounds else builder).events[seen:]:
                ledger.feed(event)
            seen = len(builder.events)
            for module in ("text_flow", "text_state"):
                patch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 1_000)
            wanted = scrolled(ledger, whole, by)
            for module in ("text_flow", "text_state"):
                patch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
            assert scrolled(ledger, frugal, by) == wanted


def test_a_round_before_what_is_laid_out_is_shown_where_it_is_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
    ledger, state = fed(long_turn(["a", " bb", "\n", " ccc"] * 4)), TextState()
    scrolled(ledger, state, 0)
    assert state.flows[0][1].first > 40
    for selected in (89, 88, 40, 41, 3, 80):
        assert "▲" in "".join(map(plain, scrolled(ledger, state, 0, selected)))


def test_held_text_is_laid_out_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
    monkeypatch.setattr("specmon.tui.widgets.text_state.HELD_ROUNDS", 5)
    events = long_turn(["a", " bb", "\n", " ccc"] * 4)
    ledger, state = fed(events[:40]), TextState()
    scrolled(ledger, state, 0)
    scrolled(ledger, state, -4)
    for event in events[40:]:
        ledger.feed(event)
    taken = state.flows[0][1].taken
    assert "+ rows below" in plain(scrolled(ledger, state, 0)[0])
    assert state.flows[0][1].taken == taken + 5
    assert "▲" in "".join(map(plain, scrolled(ledger, state, 0, selected=85)))  # beyond what is laid out
    scrolled(ledger, state, 0, selected=len(events))  # of a turn before
    assert scrolled(ledger, state, 10_000) == scrolled(ledger, TextState(), 0)


def test_text_held_back_comes_at_the_end_of_a_long_turn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("text_flow", "text_state"):
        monkeypatch.setattr(f"specmon.tui.widgets.{module}.LONG_ROUNDS", 20)
    events = long_turn(["a", "\n"] * 8)
    events.append(TurnEnd(t=events[-1].t, stop_reason="cancelled", n_tokens=4, rounds=90, text="the end!"))
    state = TextState()
    assert "the end!" in "".join(bodies(View(ledger=fed(events)), 40, 10, state))
    assert "".join(bodies(View(ledger=fed(events)), 40, 10, state)).count("the end!") == 1
