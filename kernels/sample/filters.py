"""Top-k and top-p as one number a row: the smallest logit that may be drawn.

The library finds it on whatever device the logits are on, without the host, so a CUDA graph can hold it; k and p are
then part of the graph. Tokens that tie with the smallest are kept with it.

A row's floor has the same bits whatever rows travel with it: a library's sums in fp32 do not, on CUDA not even from one
run to the next, so probabilities are added up as integers.
Legend: R rows, V tokens, C candidates.
Source: Holtzman et al. 2020 (top-p), Fan et al. 2018 (top-k).
"""

from __future__ import annotations

import torch
from torch import Tensor

_UNIT = 2.0**40  # of the best token's weight; V of them fit 63 bits


def floors(logits_RV: Tensor, inverse_temperature: float | Tensor, top_k: int, top_p: float) -> Tensor:
    """The smallest logit of each row that may be drawn; −inf where none is filtered.

    Of the `top_k` best tokens (0: of all), the fewest best whose probability, at this temperature and among those, reaches
    `top_p`: one at least.

    Shapes: logits_RV [R, V] fp32; inverse_temperature a number or [1] fp32. Returns: [R] fp32, contiguous.
    """
    n_rows, n_tokens = logits_RV.shape
    best = 0 < top_k < n_tokens
    if not best and top_p >= 1:
        return logits_RV.new_full((n_rows,), -torch.inf)
    found_RC = (
        logits_RV.topk(top_k, dim=-1).values if best else logits_RV.sort(dim=-1, descending=True).values
    )
    if top_p >= 1:
        return found_RC[:, -1].contiguous()
    weight_RC = ((found_RC - found_RC[:, :1]) * inverse_temperature).exp().mul(_UNIT).long()
    before_RC = weight_RC.cumsum(-1) - weight_RC
    wanted_R1 = weight_RC.sum(-1, keepdim=True).double() * top_p
    last_R1 = (before_RC < wanted_R1).sum(-1, keepdim=True).clamp_(min=1) - 1
    return found_RC.gather(1, last_R1)[:, 0]
