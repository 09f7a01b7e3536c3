"""softmax(q kᵀ / √D) v over one sequence's KV cache, H query heads sharing KV heads in equal groups.

Legend: R rows, H query heads, G KV heads, S cache positions, D head dimension.
The library's bits depend on the number of query rows in a call, so rows that must agree between
decoders go one call a row (`attend_rows`), each over exactly its own length. A KV head's queries are the
call's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

_CUDA_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def attend_rows(q_RHD: Tensor, k_SGD: Tensor, v_SGD: Tensor, lengths: Sequence[int]) -> Tensor:
    """Each row attends to the first `lengths[row]` positions; bits do not depend on the other rows.

    Shapes: q_RHD [R, H, D]; k_SGD, v_SGD [S, G, D], any strides; lengths R ints, 1..S. Returns: [R, H, D].
    Raises: ValueError if a length is missing or outside 1..S.
    """
    if len(lengths) != len(q_RHD) or min(lengths) < 1 or max(lengths) > len(k_SGD):
        raise ValueError(
            f"{len(q_RHD)} rows need as many lengths within 1..{len(k_SGD)}, not {list(lengths)}"
        )
    k_1GSD, v_1GSD = k_SGD.transpose(0, 1).unsqueeze(0), v_SGD.transpose(0, 1).unsqueeze(0)
    rows, heads, head_dim = q_RHD.shape
    q_RGQD = q_RHD.view(rows, k_1GSD.shape[1], -1, head_dim)
    with _library(q_RHD):
        outputs = [
            F.scaled_dot_product_attention(
                q_RGQD.narrow(0, r, 1), k_1GSD.narrow(2, 0, length), v_1GSD.narrow(2, 0, length)
            )
            for r, length in enumerate(lengths)
        ]
    out_RGQD = outputs[0] if rows == 1 else torch.cat(outputs)
    return out_RGQD.reshape(rows, heads, head_dim)


def attend_branches(
    q_RHD: Tensor, k_SGD: Tensor, v_SGD: Tensor, prefixes: Sequence[int], own_slots: Sequence[Sequence[int]]
) -> Tensor:
    """Row r attends to the first `prefixes[r]` positions and then to the slots `own_slots[r]`, as if they came next.

    Shapes: q_RHD [R, H, D]; k_SGD, v_SGD [S, G, D]. Returns: [R, H, D], each row's bits those it has on a main line.
    """
    rows = []
    for r, (prefix, own) in enumerate(zip(prefixes, own_slots, strict=True)):
        seen = torch.tensor([*range(prefix), *own], device=k_SGD.device)
        rows.append(attend_rows(q_RHD[r : r + 1], k_SGD[seen], v_SGD[seen], [len(seen)]))
    return torch.cat(rows)


def attend_prefill(q_RHD: Tensor, k_SGD: Tensor, v_SGD: Tensor, start: int) -> Tensor:
    """A prompt chunk: row i stands at position start + i and sees positions 0..start + i.

    Shapes: q_RHD [R, H, D]; k_SGD, v_SGD [S, G, D] with S ≥ start + R, later positions are not read.
    Returns: [R, H, D]. A function of (start, R): the same chunks give the same bits.
    """
    end = start + len(q_RHD)
    if start < 0 or end > len(k_SGD):
        raise ValueError(f"a chunk of {len(q_RHD)} rows from {start} does not fit {len(k_SGD)} positions")
    if start == 0:
        return _attend(q_RHD, k_SGD[:end], v_SGD[:end], is_causal=True)
    columns = torch.arange(end, device=q_RHD.device)
    mask_RS = columns <= torch.arange(start, end, device=q_RHD.device)[:, None]
    return _attend(q_RHD, k_SGD[:end], v_SGD[:end], mask=mask_RS)


def attend_masked(q_RHD: Tensor, k_SGD: Tensor, v_SGD: Tensor, mask_RS: Tensor) -> Tensor:
    """Rows of a draft's branches in one call; fast, but bits may depend on the batch.

    Shapes: q_RHD [R, H, D]; k_SGD, v_SGD [S, G, D]; mask_RS [R, S] bool, True where a
        row may look, which must be somewhere.
    Returns: [R, H, D].
    """
    return _attend(q_RHD, k_SGD, v_SGD, mask=mask_RS)


def attend_apart(
    q_BHD: Tensor,
    new_k_BGD: Tensor,
    new_v_BGD: Tensor,
    k_BGSD: Tensor,
    v_BGSD: Tensor,
    start_B: Tensor,
    position: Tensor,
) -> Tensor:
    """Append a key and a value in slot `position` [1] of every row, and attend over each one's slots from `start_B` on.

    Returns: [B, H, D].
    """
    k_BGSD.index_copy_(2, position, new_k_BGD[:, :, None])
    v_BGSD.index_copy_(2, position, new_v_BGD[:, :, None])
    n_rows, n_kv_heads, n_slots, head_dim = k_BGSD.shape
    slots = torch.arange(n_slots, device=start_B.device)
    seen_BS = ((slots >= start_B[:, None]) & (slots < position)) | (slots == position)
    # A KV head's queries are the rows of one call, so that each key is read once.
    q = q_BHD.view(n_rows, n_kv_heads, -1, head_dim)
    mixed = F.scaled_dot_product_attention(q, k_BGSD, v_BGSD, attn_mask=seen_BS[:, None, None])
    return mixed.reshape(q_BHD.shape)


def _attend(
    q_RHD: Tensor, k_SGD: Tensor, v_SGD: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    q_1HRD, k_1GSD, v_1GSD = (x.transpose(0, 1).unsqueeze(0) for x in (q_RHD, k_SGD, v_SGD))
    with _library(q_RHD):
        out_1HRD = F.scaled_dot_product_attention(
            q_1HRD,
            k_1GSD,
            v_1GSD,
            attn_mask=mask,
            is_causal=is_causal,
            enable_gqa=q_1HRD.shape[1] != k_1GSD.shape[1],
        )
    return out_1HRD.squeeze(0).transpose(0, 1)


def _library(q: Tensor) -> AbstractContextManager[None]:
    """The library's own choice on CPU; on CUDA not cuDNN, which plans anew for every length (3 ms a call on an H200)."""
    return sdpa_kernel(_CUDA_BACKENDS) if q.is_cuda else nullcontext()
