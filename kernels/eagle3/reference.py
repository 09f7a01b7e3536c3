"""What an EAGLE-3 layer's attention reads: cat(norm(embedding of the token), norm(feature before it)).

Source: Li et al. 2025, "EAGLE-3", section 3; two norms as SafeAILab publishes it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specmon.kernels.rmsnorm.reference import rmsnorm

ROWS = 16  # of a pass


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


def collect(features_RF: Tensor, n_rows: int) -> Tensor:
    """The first rows of `features_RF`, then zeros. Shapes: features_RF [≥ n_rows, F] -> [16, F]."""
    out = features_RF.new_zeros(ROWS, features_RF.shape[1])
    out[:n_rows] = features_RF[:n_rows]
    return out
