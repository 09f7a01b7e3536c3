"""What the forward pass asks of a matmul, whatever its weight format."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Linear(Protocol):
    """y = x Wᵀ (+ bias) for a fixed W [N, K].

    `weight_bytes` is what one call must read: quantised weights with their scales, and the bias.
    `dtype` is the type of its result; x is rounded to it on the way in.
    """

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def in_features(self) -> int: ...

    @property
    def out_features(self) -> int: ...

    @property
    def weight_bytes(self) -> int: ...

    def __call__(self, x_RK: Tensor, /) -> Tensor:
        """Multiply R rows. Shapes: x_RK [R, K] -> [R, N]."""
        ...


def tensor_bytes(*tensors: Tensor | None) -> int:
    """Bytes held by `tensors`; None counts nothing."""
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def check_weight(weight_NK: Tensor, bias_N: Tensor | None) -> None:
    """Refuse a weight that is no matrix or a bias that does not fit it."""
    if weight_NK.dim() != 2:
        raise ValueError(f"a weight has two dimensions, this one has {weight_NK.dim()}")
    if bias_N is not None and tuple(bias_N.shape) != (weight_NK.shape[0],):
        raise ValueError(f"bias {tuple(bias_N.shape)} does not fit {weight_NK.shape[0]} output features")
