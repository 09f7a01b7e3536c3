"""The winning token of each row, and by how much it won."""

from __future__ import annotations

from torch import Tensor


def argmax_rows(logits_RV: Tensor) -> Tensor:
    """The token of each row's largest logit. Shapes: logits_RV [R, V] -> [R] int64."""
    return logits_RV.max(dim=-1).indices


def top2_margin(logits_V: Tensor) -> float:
    """The largest logit minus the second largest. Shapes: logits_V [V], V ≥ 2."""
    top = logits_V.float().topk(2).values
    return float(top[0] - top[1])
