"""bf16 and fp32 weights on the library's matmul, at a fixed row count where its bits depend on that count.

fp32 on CPU and everything cuBLAS choose their reduction by the number of rows. There x is padded with zero
rows to `rows`, so that a row always goes through the same call; more rows than that are a prompt's chunk and
run in one call, whose bits depend on the chunk's length alone. bf16 on CPU sums each output in one order for
every row count (oneDNN, weights packed once at load) and runs unpadded.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.kernels.linear.base import check_weight, tensor_bytes

DEFAULT_ROWS = 16  # AR's one row, a draft of up to 15 with its bonus


class DenseLinear:
    """y = x Wᵀ (+ bias); W and the activations share one dtype, bf16 or fp32."""

    def __init__(self, weight_NK: Tensor, bias_N: Tensor | None = None, rows: int | None = None) -> None:
        """Keep the weight, packed for its device.

        Shapes: weight_NK [N, K]; bias_N [N]. `rows` fixes the row count of every library call; None takes
        16 where the library needs one and lets the others run as they come.
        Raises: ValueError for other dtypes, shapes that do not fit, or rows below 1.
        """
        check_weight(weight_NK, bias_N)
        if weight_NK.dtype not in (torch.bfloat16, torch.float32):
            raise ValueError(f"dense weights are bf16 or fp32, not {weight_NK.dtype}")
        if rows is not None and rows < 1:
            raise ValueError("the fixed row count must be at least 1")
        self.dtype = weight_NK.dtype
        self.out_features, self.in_features = weight_NK.shape
        self.bias = None if bias_N is None else bias_N.to(self.dtype)
        self.weight_bytes = tensor_bytes(weight_NK, self.bias)
        onednn = weight_NK.device.type == "cpu" and self.dtype == torch.bfloat16
        self.rows = rows if rows is not None or onednn else DEFAULT_ROWS
        self._packed = onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        self.weight = weight_NK.contiguous()
        if self._packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, DEFAULT_ROWS)

    def move(self, put: Callable[[Tensor], Tensor]) -> None:
        """Replace the weight by `put`'s copy (on CPU, unless oneDNN keeps it in a layout of its own)."""
        if not self._packed and self.weight.device.type == "cpu":
            self.weight = put(self.weight)

    def __call__(self, x_RK: Tensor) -> Tensor:
        """Multiply R rows. Shapes: x_RK [R, K] -> [R, N]."""
        x_RK = x_RK.to(self.dtype)
        if self.rows is None or len(x_RK) > self.rows:
            return self._multiply(x_RK)
        return self._block(x_RK)

    def _block(self, x_RK: Tensor) -> Tensor:
        """Run up to `rows` rows in a call of exactly that many."""
        assert self.rows is not None
        count = len(x_RK)
        if count == self.rows:
            return self._multiply(x_RK)
        return self._multiply(F.pad(x_RK, (0, 0, 0, self.rows - count)))[:count]

    def _multiply(self, x_RK: Tensor) -> Tensor:
        if self._packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x_RK, self.weight, self.bias, "none", [], "")
            return y
        return F.linear(x_RK, self.weight, self.bias)
