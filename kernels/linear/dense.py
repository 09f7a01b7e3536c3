"""bf16 and fp32 weights on the library's matmul, with as many rows in a call as its bits need.

The library chooses the order of its sums by the number of rows: fp32 on CPU and everything of cuBLAS up to some
count, bf16 on CPU (oneDNN, weights packed once at load) for a single row of more than 1,024 inputs. There x is padded
with zero rows to `rows`, so that a row always goes through a call of one kind; more rows than 16 are a prompt's chunk,
whose bits depend on the chunk's length alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.kernels.linear.base import check_weight, tensor_bytes

DEFAULT_ROWS = 16  # AR's one row, a draft of up to 15 with its bonus
_ONEDNN_ROWS = 2


class DenseLinear:
    """y = x Wᵀ (+ bias); W and the activations share one dtype, bf16 or fp32."""

    def __init__(self, weight_NK: Tensor, bias_N: Tensor | None = None, rows: int | None = None) -> None:
        """Keep the weight, packed for its device.

        Shapes: weight_NK [N, K]; bias_N [N]. `rows` is the fewest rows of a library call; None takes what its sums need:
        2 in bf16 on CPU, else 16.
        Raises: ValueError for other dtypes, shapes that do not fit, or rows below 1.
        """
        check_weight(weight_NK, bias_N)
        if weight_NK.dtype not in (torch.bfloat16, torch.float32):
            raise ValueError(f"dense weights are bf16 or fp32, not {weight_NK.dtype}")
        if rows is not None and rows < 1:
            raise ValueError("a call has at least 1 row")
        self.dtype = weight_NK.dtype
        self.out_features, self.in_features = weight_NK.shape
        self.bias = None if bias_N is None else bias_N.to(self.dtype)
        self.weight_bytes = tensor_bytes(weight_NK, self.bias)
        onednn = weight_NK.device.type == "cpu" and self.dtype == torch.bfloat16
        self.rows = rows or (_ONEDNN_ROWS if onednn else DEFAULT_ROWS)
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
        lacking = self.rows - len(x_RK)
        if lacking <= 0:
            return self._multiply(x_RK)
        return self._multiply(F.pad(x_RK, (0, 0, 0, lacking)))[: len(x_RK)]

    def _multiply(self, x_RK: Tensor) -> Tensor:
        if self._packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x_RK, self.weight, self.bias, "none", [], "")
            return y
        return F.linear(x_RK, self.weight, self.bias)
