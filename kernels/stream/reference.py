"""The ops of this folder in torch: what each kernel computes, but for the order of sums and the rounding of what it leaves.

Legend: R rows, D width of the residual stream, N outputs, K inputs, V vocabulary, P positions; HQ query heads, HK KV heads,
D head size in `qkv`. Weights and rows in fp8 enter as the numbers they stand for (`quantise.reference`).
Source: Zhang & Sennrich 2019 (RMSNorm, whose division by the rms is left to the matmul that reads h).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.kernels.head.reference import argmax_rows
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.reference import apply_rope
from specmon.kernels.stream.shapes import HeadShape
from specmon.kernels.swiglu.reference import swiglu


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a kernel that ends in the residual stream leaves: residual, h [R, D]; Σ residual² of each row, squares [R]."""

    residual: Tensor
    h: Tensor
    squares: Tensor


@dataclass(frozen=True, kw_only=True)
class HeadOut:
    """logits [R, V] fp32; of each row the best token [R], its margin over the second best and its probability [R] fp32."""

    logits: Tensor
    tokens: Tensor
    margins: Tensor
    probs: Tensor


def leave(residual_RD: Tensor, norm_D: Tensor) -> Left:
    """h = residual · the next norm's weight, not yet divided by its rms, and squares = Σ residual²."""
    return Left(residual=residual_RD, h=residual_RD * norm_D, squares=residual_RD.square().sum(dim=1))


def embed(token_R: Tensor, table_VD: Tensor, norm_D: Tensor) -> Left:
    """residual = table[token]. Shapes: token_R [R] int64; table_VD [V, D]; norm_D [D]."""
    return leave(table_VD[token_R].float(), norm_D)


def gather(sources: Sequence[Tensor]) -> Tensor:
    """out[r] = sources[r]. Shapes: each of sources [N] fp32, wherever it lies -> [R, N]."""
    return torch.stack(list(sources))


def add_product(
    residual_RN: Tensor, x_RK: Tensor, weight_NK: Tensor, bias_N: Tensor | None, norm_N: Tensor
) -> Left:
    """residual += x Wᵀ (+ bias). Shapes: residual_RN [R, N]; x_RK [R, K]; weight_NK [N, K]; bias_N, norm_N [N]."""
    return leave(residual_RN + F.linear(x_RK, weight_NK, bias_N), norm_N)


def normed_product(left: Left, weight_NK: Tensor, eps: float) -> Tensor:
    """y = (h Wᵀ) / rms with rms = sqrt(squares / K + eps). Shapes: left of width K; weight_NK [N, K] -> [R, N]."""
    inverse_R = torch.rsqrt(left.squares / left.h.shape[1] + eps)
    return F.linear(left.h, weight_NK) * inverse_R[:, None]


def gate_up(left: Left, weight_2NK: Tensor, eps: float) -> Tensor:
    """silu(g) · u with g, u the halves of the normed product. Shapes: weight_2NK [2N, K], gate rows first -> [R, N].

    Source: Shazeer 2020.
    """
    return swiglu(normed_product(left, weight_2NK, eps))


def head(left: Left, weight_VK: Tensor, eps: float) -> HeadOut:
    """logits = the normed product; its best token, best − second best, and exp(best) / Σ exp(logits)."""
    logits_RV = normed_product(left, weight_VK, eps)
    best_R2 = logits_RV.topk(2, dim=1).values
    return HeadOut(
        logits=logits_RV,
        tokens=argmax_rows(logits_RV),
        margins=best_R2[:, 0] - best_R2[:, 1],
        probs=logits_RV.softmax(dim=1).amax(dim=1),
    )


def qkv(
    left: Left,
    weight_NK: Tensor,
    bias_N: Tensor | None,
    norms: tuple[Tensor, Tensor] | None,
    shape: HeadShape,
    cos_PH: Tensor,
    sin_PH: Tensor,
    position_R: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of each row: biased; q and k heads normed where the model has norms for them, then turned to its position.

    Shapes: weight_NK [(HQ + 2·HK)·D, K], rows in the order q, k, v; norms of q and k heads [D]; cos_PH, sin_PH [P, D/2];
    position_R [R] int. Returns: q [R, HQ, D], k and v [R, HK, D].
    Source: Su et al. 2021; Qwen3 technical report (head norms).
    """
    flat_RN = normed_product(left, weight_NK, eps)
    heads_RHD = (flat_RN if bias_N is None else flat_RN + bias_N).view(len(flat_RN), -1, shape.head_dim)
    q, k, v = torch.split(heads_RHD, [shape.n_heads, shape.n_kv_heads, shape.n_kv_heads], dim=1)
    if norms is not None:
        q, k = rmsnorm(q, norms[0], eps), rmsnorm(k, norms[1], eps)
    cos, sin = cos_PH[position_R.long(), None], sin_PH[position_R.long(), None]
    turns = torch.cat((cos, cos), dim=2), torch.cat((-sin, sin), dim=2)
    return apply_rope(q, *turns), apply_rope(k, *turns), v
