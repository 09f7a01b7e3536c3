"""8-bit weights with one scale an output channel: w = scale·q.

On CPU torch's int8 kernel reads the weights as they are and takes each row of x through the same loop.
Elsewhere the weights are widened once to bf16 and run as a `DenseLinear`.

Source: torch's `_weight_int8pack_mm`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specmon.kernels.linear.base import check_weight, tensor_bytes
from specmon.kernels.linear.dense import DenseLinear


class Int8Linear:
    """y = x Wᵀ (+ bias) with int8 weights and activations in bf16."""

    dtype = torch.bfloat16

    def __init__(self, weight_NK: Tensor, scale_N: Tensor, bias_N: Tensor | None = None) -> None:
        """Keep the weight.

        Shapes: weight_NK [N, K] int8; scale_N [N] or [N, 1] float; bias_N [N].
        Raises: ValueError where they do not fit together.
        """
        check_weight(weight_NK, bias_N)
        if weight_NK.dtype != torch.int8 or scale_N.numel() != weight_NK.shape[0]:
            raise ValueError("int8 weights need dtype int8 and one scale an output channel")
        self.out_features, self.in_features = weight_NK.shape
        scale = scale_N.reshape(-1).bfloat16()
        self._dense: DenseLinear | None = None
        if weight_NK.device.type != "cpu":
            self._dense = DenseLinear((weight_NK.float() * scale.float()[:, None]).bfloat16(), bias_N)
            self.weight_bytes = self._dense.weight_bytes
            return
        self.weight, self.scale = weight_NK.contiguous(), scale
        self._bias = None if bias_N is None else bias_N.bfloat16()
        self.weight_bytes = tensor_bytes(self.weight, self.scale, self._bias)

    def move(self, put: Callable[[Tensor], Tensor]) -> None:
        """Replace the weight by `put`'s copy (on CPU)."""
        if self._dense is None:
            self.weight = put(self.weight)

    def __call__(self, x_RK: Tensor) -> Tensor:
        """Multiply R rows. Shapes: x_RK [R, K] -> [R, N] bf16."""
        if self._dense is not None:
            return self._dense(x_RK)
        y_RN = torch._weight_int8pack_mm(x_RK.to(self.dtype), self.weight, self.scale)
        return y_RN if self._bias is None else y_RN + self._bias
