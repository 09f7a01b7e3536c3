"""How far a drafter is from its target, in a form to learn from.

Shapes: N places, V a vocabulary (the head's own in EAGLE-3). p is the target's distribution, q the drafter's. The
cross-entropy to p teaches all of it; 1 − Σ min(p, q) is the chance that a drafted token is rejected when both are sampled.
Source: Hinton et al. 2015; Leviathan et al. 2023 for the acceptance rate; Zhou et al. 2024, "DistillSpec".
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

#: Places whose logits are in memory at once; they are computed again for the gradient.
_CHUNK = 16_384


def distance(
    hidden_ND: Tensor, head_VD: Tensor, teacher_NE: Tensor, teacher_VE: Tensor, accept_weight: float
) -> Tensor:
    """Summed over places. Shapes: the drafter's last hidden states and head, and the target's."""
    total = torch.zeros((), device=hidden_ND.device)
    for hidden, teacher in zip(torch.split(hidden_ND, _CHUNK), torch.split(teacher_NE, _CHUNK), strict=True):
        total = total + checkpoint(
            _chunk,
            hidden,
            head_VD,
            teacher,
            teacher_VE,
            accept_weight,
            use_reentrant=False,
            preserve_rng_state=False,
        )
    return total


def _chunk(
    hidden: Tensor, head: Tensor, teacher: Tensor, teacher_head: Tensor, accept_weight: float
) -> Tensor:
    with torch.no_grad():
        p_NV = F.linear(teacher.to(teacher_head.dtype), teacher_head).float().softmax(dim=-1)
    log_q_NV = F.linear(hidden, head).float().log_softmax(dim=-1)
    loss = -(p_NV * log_q_NV).sum()
    if accept_weight:
        rejected = 1 - torch.minimum(p_NV, log_q_NV.exp()).sum(dim=-1)
        loss = loss + accept_weight * rejected.sum()
    return loss
