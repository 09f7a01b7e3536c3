"""8-bit floating point weights with one scale an output channel: w = scale·q, q in e4m3.

Decode rows stream them through `kernels.stream`, which rounds activations to fp8 too. Here, for prompt chunks, the
weights are widened to bf16, exactly, and meet activations in bf16.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.kernels.linear.base import check_weight, tensor_bytes
from specmon.kernels.quantise.reference import FP8


class Fp8Linear:
    """y = x Wᵀ (+ bias) with e4m3 weights."""

    dtype = torch.bfloat16

    def __init__(self, weight_NK: Tensor, scale_N: Tensor, bias_N: Tensor | None = None) -> None:
        """Keep the weight.

        Shapes: weight_NK [N, K] e4m3; scale_N [N] fp32; bias_N [N].
        Raises: ValueError where they do not fit together.
        """
        check_weight(weight_NK, bias_N)
        if weight_NK.dtype != FP8 or tuple(scale_N.shape) != (weight_NK.shape[0],):
            raise ValueError("fp8 weights need dtype float8_e4m3fn and one scale an output channel")
        self.weight, self.scale = weight_NK.contiguous(), scale_N.float().contiguous()
        self.bias = None if bias_N is None else bias_N.bfloat16()
        self.out_features, self.in_features = weight_NK.shape
        self.weight_bytes = tensor_bytes(self.weight, self.scale, self.bias)

    def __call__(self, x_RK: Tensor) -> Tensor:
        """Multiply R rows. Shapes: x_RK [R, K] -> [R, N] bf16."""
        y_RN = F.linear(x_RK.bfloat16(), self._widened()).float() * self.scale
        return (y_RN if self.bias is None else y_RN + self.bias.float()).bfloat16()

    def _widened(self) -> Tensor:
        if self.weight.device.type == "cpu":
            return self.weight.bfloat16()
        from specmon.kernels.quantise.widen import widen  # Triton is imported only where it is used

        return widen(self.weight)
