"""The vocabulary projection in int8 with fp32 logits where it matters: the few best of each row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specmon.kernels.head.reference import sharpen_top
from specmon.kernels.linear.int8 import Int8Linear


class Int8Head:
    """An `Int8Linear` whose result is fp32 and exact for each row's best tokens (see `sharpen_top`)."""

    dtype = torch.float32

    def __init__(self, weight_VD: Tensor, scale_V: Tensor) -> None:
        """Shapes: weight_VD [V, D] int8; scale_V [V] or [V, 1]."""
        self._linear = Int8Linear(weight_VD, scale_V)
        self._weight, self._scale = weight_VD, scale_V.reshape(-1).bfloat16()
        self.out_features, self.in_features = weight_VD.shape
        self.weight_bytes = self._linear.weight_bytes

    def move(self, put: Callable[[Tensor], Tensor]) -> None:
        """Replace the weight by `put`'s copy (on CPU)."""
        if self._weight.device.type == "cpu":
            self._weight = self._linear.weight = put(self._weight)

    def __call__(self, x_RD: Tensor) -> Tensor:
        """Logits of R rows. Shapes: x_RD [R, D], fp32 for sharp results -> [R, V] fp32."""
        return sharpen_top(self._linear(x_RD), x_RD, self._weight, self._scale)
