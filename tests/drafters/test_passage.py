"""Rows handed from one side to the other through shared memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from specmon.core.drafters import passage as module
from specmon.core.drafters.passage import PIECE, Passage, passage_words
from specmon.core.errors import SpecmonError

F = 7


@pytest.fixture
def memory() -> torch.Tensor:
    return torch.zeros(passage_words(F), dtype=torch.int64)


def nothing() -> None:
    pass


def gone() -> None:
    raise SpecmonError("gone")


@pytest.mark.parametrize("n_rows", [1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_rows_arrive_as_they_were_put(memory: torch.Tensor, n_rows: int) -> None:
    ours, theirs = Passage(memory, F), Passage(memory, F)
    sent = [torch.randn(n_rows, F), torch.randn(2, F)]

    with ThreadPoolExecutor(1) as other:
        taken = [other.submit(theirs.take, len(rows), "cpu", nothing) for rows in sent]
        for rows in sent:
            ours.put(rows, nothing)

        for rows, found in zip(sent, taken, strict=True):
            assert torch.equal(found.result(timeout=10), rows)


def test_other_side_that_is_gone_ends_the_wait(memory: torch.Tensor) -> None:
    with pytest.raises(SpecmonError, match="gone"):
        Passage(memory, F).put(torch.zeros(PIECE + 1, F), gone)


def test_waits_are_bounded(memory: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIMIT_S", 0.01)

    with pytest.raises(SpecmonError, match="not handed over"):
        Passage(memory, F).take(1, "cpu", nothing)


def test_a_reset_forgets_what_was_not_taken(memory: torch.Tensor) -> None:
    ours = Passage(memory, F)
    ours.put(torch.zeros(1, F), nothing)
    ours.reset()

    ours.put(torch.ones(1, F), nothing)

    assert torch.equal(Passage(memory, F).take(1, "cpu", nothing), torch.ones(1, F))
