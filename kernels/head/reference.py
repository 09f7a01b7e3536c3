"""The winning token of each row, by how much it won and how likely it is.

Matmuls in bf16 give bf16 logits, whose spacing (0.125 between 16 and 32) makes the best tokens tie every
few rows. `sharpen_top` computes the best few again in fp32, so that the winner and its margin are real.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

CANDIDATES = 8  # more tokens than bf16 rounding leaves in doubt


def sharpen_top(logits_RV: Tensor, hidden_RD: Tensor, weight_VD: Tensor, scale_V: Tensor | None) -> Tensor:
    """Replace each row's largest logits by their fp32 values.

    Shapes: logits_RV [R, V]; hidden_RD [R, D] fp32, what the head multiplied; weight_VD [V, D], int8 with
    scale_V [V] or float without. Returns: [R, V] fp32. Each row is worked on alone.
    """
    sharp_RV = logits_RV.float()
    best_RC = sharp_RV.topk(min(CANDIDATES, sharp_RV.shape[1]), dim=-1, sorted=False).indices
    products_RCD = weight_VD[best_RC].float().mul_(hidden_RD.float().unsqueeze(1))
    exact_RC = products_RCD.sum(dim=-1)
    if scale_V is not None:
        exact_RC.mul_(scale_V[best_RC])
    return sharp_RV.scatter_(1, best_RC, exact_RC)


def argmax_rows(logits_RV: Tensor) -> Tensor:
    """The token of each row's largest logit. Shapes: logits_RV [R, V] -> [R] int64."""
    return logits_RV.float().max(dim=-1).indices


def top_rows(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` likeliest tokens of each row, best first, and their probabilities.

    Shapes: logits_RV [R, V] -> [R, count] int64, [R, count] fp32. Ties may fall either way from the second place on.
    """
    logits_RV = logits_RV.float()
    top, index = logits_RV.max(dim=-1, keepdim=True) if count == 1 else logits_RV.topk(count, dim=-1)
    return index, torch.exp(top - torch.logsumexp(logits_RV, dim=-1, keepdim=True))


def pick_reference(likely_PN: Tensor, picks: Sequence[tuple[int, int, int]]) -> list[int]:
    """For each (place, rank, proposed) the rank-th of the place's likely tokens other than the proposed one."""
    rows = likely_PN.tolist()
    return [[t for t in rows[place] if t != proposed][rank - 1] for place, rank, proposed in picks]


def top2_margin(logits_V: Tensor) -> float:
    """The largest logit minus the second largest. Shapes: logits_V [V], V ≥ 2."""
    first, second = torch.topk(logits_V.float(), 2).values.tolist()
    return float(first - second)
