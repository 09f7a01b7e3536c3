"""A round settled on the device: its record, and the rows of the next one; waits that end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from specmon.kernels.relay.board import BRANCHES, TABLES, TOTAL, Board, key_of, words_of
from specmon.kernels.relay.launch import Relay
from specmon.kernels.relay.reference import post, settle
from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.stream.winners import WORDS, Winners

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
POSITION = 300
few_tokens = st.integers(0, 3)  # so that many agree


@dataclass
class Table:
    """A board, a relay on it, and the winners of a round."""

    memory: torch.Tensor = field(
        default_factory=lambda: torch.zeros(TOTAL, dtype=torch.int64, pin_memory=GPU)
    )
    winners: torch.Tensor = field(
        default_factory=lambda: torch.zeros(WORDS, dtype=torch.int64, device=DEVICE)
    )

    def __post_init__(self) -> None:
        self.board = Board(self.memory.numpy())
        self.relay = Relay(self.memory, DEVICE, patience=50)

    def start(
        self, draft: list[int], *, serial: int = 0, left: int = 100, last: tuple[int, ...] = ()
    ) -> None:
        self.relay.start(serial, [7, *draft], POSITION, left=left, last=last)

    def settle(self, choices: list[int], draft_len: int) -> None:
        won = Winners.within(self.winners)
        won.tokens[: len(choices)] = torch.tensor(choices)
        won.margins.fill_(0.5)
        won.stamps.copy_(torch.tensor([40, 50]))
        self.relay.settle(self.winners, draft_len)
        if GPU:
            torch.cuda.synchronize()

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        return self.relay.tokens.tolist(), self.relay.positions.tolist()


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[int], list[int], dict[tuple[int, int], list[int]], list[int]]:
    """A draft, the target's choices, branches by outcome, and a draft for where there is none."""
    k = draw(st.integers(1, ROWS - 1))
    some = st.lists(few_tokens, min_size=k, max_size=k)
    outcomes = st.tuples(st.integers(0, k), few_tokens)
    choices = draw(st.lists(few_tokens, min_size=k + 1, max_size=k + 1))
    return draw(some), choices, draw(st.dictionaries(outcomes, some, max_size=12)), draw(some)


@seed(0)
@settings(max_examples=80, deadline=None, database=None)
@given(
    round_=rounds(),
    serial=st.integers(0, 9),
    left=st.integers(1, 20),
    last=st.sampled_from([(), (3,), (9, 2)]),
)
def test_a_round_is_settled_as_in_plain_python(
    round_: tuple[list[int], list[int], dict[tuple[int, int], list[int]], list[int]],
    serial: int,
    left: int,
    last: tuple[int, ...],
) -> None:
    draft, choices, branches, otherwise = round_
    k = len(draft)
    table = Table()
    table.start(draft, serial=serial, left=left, last=last)
    table.board.put_branches(serial, [key_of(*o) for o in branches], [tuple(b) for b in branches.values()])
    table.board.put_draft(serial, tuple(otherwise))

    table.settle(choices, k)

    want = settle(draft, choices, branches, otherwise, left=left, last=last)
    assert table.board.has_record(serial)
    record = table.board.record(serial)
    assert (record.discarded, record.cursor, record.accepted_len) == (False, POSITION, want.accepted_len)
    assert record.draft[:k] == draft
    assert (record.won.tokens[0, : k + 1].tolist(), record.bonus) == (choices, want.emitted[-1])
    assert (record.won.margins[0, 0], record.won.ran(1)) == (0.5, (40, 50))
    tokens, positions = table.rows
    if want.tokens is None:
        assert (tokens[: k + 1], positions[0]) == ([7, *draft], POSITION)
    else:
        assert tuple(tokens[: k + 1]) == want.tokens
        first = POSITION + want.accepted_len + 1
        assert positions == list(range(first, first + ROWS))
    assert not table.board.gave_up


def test_rounds_follow_each_other_through_all_places() -> None:
    table, serial, draft = Table(), 5, [1, 2]
    table.start(draft, serial=serial)
    expected = POSITION
    for round_ in range(3 * TABLES):
        choices = [draft[0], 9, 9] if round_ % 2 else [8, 9, 9]
        accepted_len = round_ % 2
        following = (round_ + 20, round_ + 30)
        if round_ % 3:
            table.board.put_branches(serial, [key_of(accepted_len, choices[accepted_len])], [following])
        else:
            table.board.put_branches(serial, [], [])
            table.board.put_draft(serial, following)
        table.settle(choices, 2)
        expected += accepted_len + 1
        assert table.board.record(serial).accepted_len == accepted_len
        tokens, positions = table.rows
        assert (tokens[:3], positions[0]) == ([choices[accepted_len], *following], expected)
        serial, draft = serial + 1, list(following)


def test_the_last_of_all_branches_is_found() -> None:
    table = Table()
    table.start([1])
    keys = [key_of(0, 100 + i) for i in range(BRANCHES)]
    table.board.put_branches(0, keys, [(i,) for i in range(BRANCHES)])

    table.settle([100 + BRANCHES - 1, 0], 1)

    assert table.rows[0][:2] == [100 + BRANCHES - 1, BRANCHES - 1]


@pytest.mark.parametrize("branches", [True, False])
def test_a_draft_that_does_not_come_ends_the_turn_and_is_said(branches: bool) -> None:
    table = Table()
    table.start([1, 2])
    if branches:  # there, but for another outcome, and no draft follows
        table.board.put_branches(0, [key_of(0, 4)], [(1, 1)])
    table.settle([1, 5, 5], 2)
    assert table.board.gave_up
    assert not table.board.record(0).discarded  # what was verified stands

    table.settle([1, 5, 5], 2)  # was queued already
    assert table.board.record(1).discarded


def test_rounds_after_stop_wait_for_nothing() -> None:
    table = Table()
    table.start([1, 2])
    table.board.stop()
    table.settle([1, 2, 5], 2)

    assert not table.board.gave_up
    assert table.board.record(0).accepted_len == 2
    table.board.stop(False)
    table.start([3, 4], serial=1)  # the next turn
    table.board.put_branches(1, [key_of(2, 5)], [(6, 6)])
    table.settle([3, 4, 5], 2)
    assert table.rows[0][:3] == [5, 6, 6]


def test_a_round_that_nothing_follows_waits_for_nothing() -> None:
    table = Table()
    table.start([1, 2], left=2)
    table.settle([1, 5, 5], 2)
    assert not table.board.gave_up

    table.settle([1, 5, 5], 2)
    assert table.board.record(1).discarded


@pytest.mark.parametrize("width", [1, 1000, 2500])
def test_features_go_to_the_place_of_their_round(width: int) -> None:
    table = Table(torch.zeros(words_of(width), dtype=torch.int64, pin_memory=GPU))
    features, want = torch.randn(ROWS, width, device=DEVICE), torch.zeros(TABLES, ROWS, width)
    for serial in (4, 5, 6):
        table.start([1, 2], serial=serial)
        table.relay.post(features + serial, 3)
        if GPU:
            torch.cuda.synchronize()
        post(want, (features[:3] + serial).cpu(), serial)
        for there in (serial, serial - 1):  # the last two rounds' stay
            found = table.board.features(there, ROWS)
            assert found is not None
            assert torch.equal(torch.from_numpy(found), want[there % TABLES])


def test_a_board_without_features_has_none() -> None:
    assert Table().board.features(0, 3) is None


def test_what_is_on_the_board_is_copied() -> None:
    memory = np.zeros(TOTAL, dtype=np.int64)
    board = Board(memory)
    memory[16] = 1
    record = board.record(0)
    memory[:] = 7
    assert record.cursor == 0
    memory[:] = 0
    assert not board.has_record(0)


def test_a_round_without_a_draft_waits_for_nothing() -> None:
    table = Table()
    table.start([], left=3)
    for serial, choice in enumerate((20, 21)):
        table.settle([choice], 0)
        record = table.board.record(serial)
        assert (record.accepted_len, record.bonus, record.discarded) == (0, choice, False)
        assert (table.rows[0][0], table.rows[1][0]) == (choice, POSITION + serial + 1)

    table.board.stop()
    table.settle([22], 0)
    assert table.board.record(2).bonus == 22  # the last token that may be emitted
    assert (table.rows[0][0], table.board.gave_up) == (21, False)
