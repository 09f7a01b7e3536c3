"""Greedy acceptance: the longest prefix of the draft that equals the target's own choices."""

from __future__ import annotations

from torch import Tensor


def accept_length(draft_K: Tensor, target_K1: Tensor) -> int:
    """Count leading draft tokens the target agrees with (greedy).

    Shapes: draft_K [K] int64; target_K1 [K+1] int64, the target's token after each prefix of the draft.
    Returns: tokens, 0..K, bonus excluded; `target_K1[result]` is the bonus.
    Raises: ValueError if the lengths do not match.
    Source: Leviathan et al. 2023, algorithm 1.
    """
    if draft_K.dim() != 1 or target_K1.dim() != 1 or len(target_K1) != len(draft_K) + 1:
        raise ValueError(
            f"a draft of {tuple(draft_K.shape)} needs one target token more, not {tuple(target_K1.shape)}"
        )
    if len(draft_K) == 0:
        return 0
    return int((draft_K == target_K1[:-1]).cumprod(0).sum())
