"""Acceptance: the longest prefix of a draft, or path of a tree, that equals the target's own choices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def agreeing(drafted: Sequence[int], chosen: Sequence[int]) -> int:
    """How many of the first drafted tokens are what the target chose there.

    Source: Leviathan et al. 2023, algorithm 1.
    """
    return next((i for i, (d, c) in enumerate(zip(drafted, chosen, strict=False)) if d != c), len(drafted))


def agreeing_path(parents: Sequence[int], drafted: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """The nodes of a tree, from the root down, whose tokens are what the target chose before each.

    `parents`: −1 for children of the root, each before its children, siblings with different tokens; `chosen`: the target's
    token after the root, then after each node.
    Source: Miao et al. 2023 (SpecInfer), algorithm 2, VerifyGreedy.
    """
    path: list[int] = []
    last = -1
    for node, parent in enumerate(parents):
        if parent == last and drafted[node] == chosen[last + 1]:
            path.append(node)
            last = node
    return path


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
    return agreeing(draft_K.tolist(), target_K1.tolist())


def accept_path(parents_N: Tensor, tokens_N: Tensor, target_N1: Tensor) -> Tensor:
    """The path of a drafted tree on which every token is the target's choice after its parent (greedy).

    Siblings differ in their tokens, so there is one such path.
    Shapes: parents_N [N] int, −1 for children of the root, each before its children; tokens_N [N] int64; target_N1 [N+1]
        int64, the target's token after the root and after each node.
    Returns: the path's nodes from the root down, [accepted_len] int64; the bonus is the target's token after the last.
    Raises: ValueError if the lengths do not match or a node comes before its parent.
    Source: Miao et al. 2023 (SpecInfer), algorithm 2, VerifyGreedy.
    """
    n = len(parents_N)
    if len(tokens_N) != n or len(target_N1) != n + 1:
        raise ValueError(
            f"a tree of {n} nodes needs as many tokens and one target token more, not {len(tokens_N)} and "
            f"{len(target_N1)}"
        )
    if bool(((parents_N < -1) | (parents_N >= torch.arange(n, device=parents_N.device))).any()):
        raise ValueError(f"parents must come before their children, not {parents_N.tolist()}")
    path = agreeing_path(parents_N.tolist(), tokens_N.tolist(), target_N1.tolist())
    return torch.tensor(path, dtype=torch.int64)
