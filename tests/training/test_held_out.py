"""Held-out acceptance, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from specmon.core.training.corpus import Batch
from specmon.core.training.forms import Decoder
from specmon.core.training.held_out import in_words, measure
from specmon.core.training.learner import Loss

K = 2


class Scripted:
    """Agrees as told: [T, K] of one row."""

    module = nn.Module()

    def __init__(self, right_TK: list[list[int]]) -> None:
        self._right = torch.tensor([right_TK], dtype=torch.bool)

    def agreement(self, target: Decoder, batch: Batch, draft_len: int) -> Tensor:
        return self._right

    def loss(self, target: Decoder, batch: Batch) -> Loss:
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def raw_config(self) -> dict[str, Any]:
        raise NotImplementedError


def answer(greedy: list[int]) -> Batch:
    marks = torch.tensor([greedy], dtype=torch.bool)
    return Batch(torch.zeros(1, len(greedy), dtype=torch.long), torch.zeros_like(marks).long(), marks, marks)


def test_rounds_are_walked_along_the_answer(target: Decoder) -> None:
    """The answer is at 1 … 6: from 1 both are accepted (to 4), from 4 none (to 5), from 5 one, the last (to 6)."""
    right = [[1, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1], [1, 1], [1, 1]]

    found = measure(Scripted(right), target, [answer([0, 1, 1, 1, 1, 1, 1, 0])], K)

    assert found.simulated_tau == pytest.approx(5 / 3)
    assert found.by_position == (pytest.approx(3 / 5), pytest.approx(1 / 2))
    assert in_words(found) == "accepted 60/50 % by position, simulated τ 1.67 at K 2"


def test_text_without_greedy_answers_gives_no_figure(target: Decoder) -> None:
    found = measure(Scripted([[1, 1]] * 4), target, [answer([0, 0, 0, 0])], K)

    assert (found.by_position, found.simulated_tau) == ((None, None), None)
