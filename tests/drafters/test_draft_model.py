"""A draft model is fed any token of the target, also where its own vocabulary has fewer rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.tiny_models import TinyModels
from torch import Tensor

from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.drafters.line import Line
from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.passes import BranchStart
from specmon.core.models.placement import Rows, branch_step
from specmon.core.models.reference_passes import ReferencePasses

from .conftest import FP32, N_SLOTS, cache

N_ROWS = 290
STARTS = ([5, 5], [[20, 21], [22, 23]])  # two branches after 5 positions, and their slots


class InOnePiece(ReferencePasses):
    whole_branches = True


def take_in(stepper: DraftModelStepper, token: int) -> Tensor:
    stepper.take_in([7, token] * 20, 0, None)
    return stepper.kv.keys(1)[:40].clone()


def draft(stepper: DraftModelStepper, token: int) -> Tensor:
    return torch.cat(stepper.draft([7, token], 0, None, 3, guesses=True).logits)


def step(stepper: DraftModelStepper, token: int) -> Tensor:
    return stepper.step(torch.tensor([token]), None, Rows(5, 1))[0]


def branch_steps(stepper: DraftModelStepper, token: int) -> Tensor:
    return stepper.step(torch.tensor([token, 9]), None, branch_step(*STARTS, 0, torch.device("cpu")))[0]


def branches(stepper: DraftModelStepper, token: int) -> Tensor:
    starts = [
        BranchStart(prefix=prefix, token=token, slots=slots) for prefix, slots in zip(*STARTS, strict=True)
    ]
    lines = stepper.branches(starts, [None, None], 2, 0)
    assert lines is not None
    return torch.cat(lines.line(0).logits)


def likely(stepper: DraftModelStepper, token: int) -> Tensor:
    line = Line(tokens=[token], logits=[torch.zeros(1, N_ROWS)], carries=[None])
    return torch.tensor(stepper.likely(line, 5, 3).tokens)


@pytest.mark.parametrize("run", [take_in, draft, step, branch_steps, branches, likely])
def test_token_without_a_row_is_fed_as_the_last_one(
    tiny: TinyModels, run: Callable[[DraftModelStepper, int], Tensor]
) -> None:
    file = HfFolder(tiny.padded(tiny.draft(), N_ROWS))
    model = build_transformer(file, FP32, "cpu:0", max_positions=N_SLOTS, progress=lambda what, part: None)

    found = []
    for token in (tiny.vocab_size - 1, N_ROWS - 1):
        kv = cache(file.config)
        stepper = DraftModelStepper(model, kv, InOnePiece(model, kv), "tiny")
        stepper.take_in([1, 2, 3, 4, 5], 0, None)
        found.append(run(stepper, token))

    assert torch.equal(*found)
