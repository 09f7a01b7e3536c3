"""4-bit weights in groups of 32 along K, on the CPU's own int4 kernel.

GGUF's Q4_1 holds w = d·q + m with q in 0..15, one (d, m) for 32 weights. torch's kernel computes
w = (q − 8)·scale + zero, so scale = d and zero = m + 8·d; both are kept in bf16. Products and sums are fp32,
and each row runs through the same loop over K, so its bits do not depend on the rows beside it.

Source: ggml's block_q4_1 and torch's `_weight_int4pack_mm_for_cpu`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specmon.kernels.dequantise.reference import unpack_q4_1
from specmon.kernels.linear.base import tensor_bytes

GROUP = 32
_multiply = torch.ops.aten._weight_int4pack_mm_for_cpu.default
_ROW_TILE = 16  # the packed layout takes whole tiles of 16 output features


class Int4Linear:
    """y = x Wᵀ (+ bias) with W in Q4_1 precision, activations in bf16; CPU only."""

    dtype = torch.bfloat16

    def __init__(self, codes_NK: Tensor, scale_NG: Tensor, minimum_NG: Tensor, bias_N: Tensor | None = None):
        """Pack a weight w = scale·code + minimum, one scale and minimum for 32 weights.

        Shapes: codes_NK [N, K] int32 in 0..15; scale_NG and minimum_NG [N, K/32] float.
        Raises: ValueError for tensors that are not on the CPU or whose K is not a multiple of 32.
        """
        if codes_NK.device.type != "cpu":
            raise ValueError(f"int4 weights run on CPU only, not on {codes_NK.device}")
        self.out_features, self.in_features = codes_NK.shape
        if self.in_features % GROUP:
            raise ValueError(f"int4 weights need K in multiples of {GROUP}, not {self.in_features}")
        padding = -self.out_features % _ROW_TILE
        codes = torch.nn.functional.pad(codes_NK, (0, 0, 0, padding))
        scale_zero_GN2 = torch.stack((scale_NG, minimum_NG + 8 * scale_NG), dim=-1).transpose(0, 1)
        self._scale_zero = torch.nn.functional.pad(scale_zero_GN2, (0, 0, 0, padding)).bfloat16().contiguous()
        self._packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.contiguous(), 1)
        self._bias = None if bias_N is None else bias_N.bfloat16()
        self.weight_bytes = tensor_bytes(self._packed, self._scale_zero, self._bias)

    @classmethod
    def from_q4_1(cls, *blocks: Tensor, bias: Tensor | None = None) -> Int4Linear:
        """Pack GGUF Q4_1 rows; several matrices of one K are stacked, in order (q, k, v; gate, up).

        Shapes: each of blocks [Ni, K/32·20] uint8, as the file holds them; bias [ΣNi].
        """
        codes, scale, minimum = unpack_q4_1(torch.cat(blocks))
        return cls(codes, scale, minimum, bias)

    def move(self, put: Callable[[Tensor], Tensor]) -> None:
        """Replace the packed weight and its scales by `put`'s copies."""
        self._packed, self._scale_zero = put(self._packed), put(self._scale_zero)

    def __call__(self, x_RK: Tensor) -> Tensor:
        """Multiply R rows. Shapes: x_RK [R, K] -> [R, N] bf16."""
        y_RN: Tensor = _multiply(x_RK.to(torch.bfloat16), self._packed, GROUP, self._scale_zero)
        if y_RN.shape[1] != self.out_features:
            y_RN = y_RN[:, : self.out_features]
        return y_RN if self._bias is None else y_RN + self._bias
