"""Acceptance on the device, with the buffers it writes: one launch, nothing waited for, CUDA graphs included."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.kernels.accept.walk import accept_chain_kernel, accept_tree_kernel
from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.scaled import ROWS


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What a round came to, at static addresses; entries past its length are −1.

    Shapes: accepted_len [1] int32; bonus [1] int64; emitted [16] int64, the accepted tokens and the bonus; path [16] int32,
    a tree's accepted nodes from the root down.
    """

    accepted_len: Tensor
    bonus: Tensor
    emitted: Tensor
    path: Tensor

    @classmethod
    def empty(cls, device: torch.device) -> Accepted:
        return cls(
            accepted_len=torch.zeros(1, dtype=torch.int32, device=device),
            bonus=torch.full((1,), -1, dtype=torch.int64, device=device),
            emitted=torch.full((ROWS,), -1, dtype=torch.int64, device=device),
            path=torch.full((ROWS,), -1, dtype=torch.int32, device=device),
        )


def accept_chain(draft_K: Tensor, choices_K1: Tensor, length: Tensor, cursor: Tensor, out: Accepted) -> None:
    """Accept the longest agreeing prefix of a draft of `length` tokens, and move `cursor` by accepted_len + 1.

    Shapes: draft_K [≥ K] and choices_K1 [≥ K + 1] int64, contiguous; length [1] int32, 0..15; cursor [1] int32.
    Source and reference: `reference.accept_length`.
    """
    accept_chain_kernel[(1,)](
        draft_K, choices_K1, length, cursor, out.accepted_len, out.bonus, out.emitted,
        num_warps=1, **launch_options(cursor.device),
    )  # fmt: skip


def accept_tree(
    parents_N: Tensor, tokens_N: Tensor, choices_N1: Tensor, length: Tensor, cursor: Tensor, out: Accepted
) -> None:
    """Accept the agreeing path of a tree of `length` nodes, and move `cursor` by accepted_len + 1.

    The accepted nodes' KV still lies where the nodes were; the cursor counts it as if it were in place.
    Shapes: parents_N [≥ N] int32, tokens_N [≥ N] and choices_N1 [≥ N + 1] int64, contiguous; length [1] int32, 0..15;
    cursor [1] int32. Source and reference: `reference.accept_path`.
    """
    accept_tree_kernel[(1,)](
        parents_N, tokens_N, choices_N1, length, cursor, out.accepted_len, out.bonus, out.emitted, out.path,
        num_warps=1, **launch_options(cursor.device),
    )  # fmt: skip
