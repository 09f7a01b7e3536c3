"""What an EAGLE-3 layer's attention reads: cat(norm(embedding of the token), norm(feature before it)).

Source: Li et al. 2025, "EAGLE-3", section 3; two norms as SafeAILab publishes it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specmon.kernels.rmsnorm.reference import rmsnorm


def pair(
    ids_R: Tensor,
    embedding_VD: Tensor,
    token_norm: Tensor,
    feature_RD: Tensor,
    feature_norm: Tensor,
    eps: float,
) -> Tensor:
    """Shapes: ids_R [R]; embedding_VD [V, D]; norms [D]; feature_RD [R, D] -> [R, 2D] fp32."""
    embedded = rmsnorm(embedding_VD[ids_R], token_norm, eps)
    return torch.cat([embedded, rmsnorm(feature_RD, feature_norm, eps)], dim=-1)
