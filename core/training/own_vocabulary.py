"""The vocabulary of a drafter that reads its target's features: the commonest of the target's tokens.

Shapes: V the target's vocabulary, V' the drafter's; `draft_ids` [V'] int64 are the target's ids of it, ascending.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def commonest(counts_V: Tensor, size: int) -> Tensor:
    """The ids of the `size` commonest tokens, ascending."""
    return counts_V.topk(min(size, len(counts_V))).indices.sort().values


def known(draft_ids: Tensor, vocab_size: int) -> Tensor:
    """Which of the target's tokens can be proposed [V] bool."""
    marks = torch.zeros(vocab_size, dtype=torch.bool, device=draft_ids.device)
    marks[draft_ids] = True
    return marks


def stored_with_map(module: nn.Module, draft_ids: Tensor, vocab_size: int) -> dict[str, Tensor]:
    """What a file holds of `module`, which has `draft_ids` as a buffer, and the map to the target's ids.

    `d2t` is what to add to an index, `t2d` marks the known tokens.
    """
    tensors = {name: tensor for name, tensor in module.state_dict().items() if name != "draft_ids"}
    offsets = draft_ids - torch.arange(len(draft_ids), device=draft_ids.device)
    return tensors | {"d2t": offsets, "t2d": known(draft_ids, vocab_size)}


def likeliest(hidden_BTD: Tensor, head_VD: Tensor) -> Tensor:
    """The target's greedy choice after each token [B, T], row by row for the sake of memory."""
    return torch.stack([F.linear(row.to(head_VD.dtype), head_VD).argmax(dim=-1) for row in hidden_BTD])
