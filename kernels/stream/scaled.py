"""Numbers and the scales that undo their rounding to fp8."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.kernels.quantise.reference import FP8

ROWS = 16


@dataclass(frozen=True)
class Scaled:
    """`data` times `scale`; bf16 and fp32 data has no scale.

    Weights: data [N, K], scale [N] fp32. Rows: data [16, K], scale [K / group, 16] fp32, `group` inputs to each.
    """

    data: Tensor
    scale: Tensor | None = None
    group: int | None = None

    @property
    def format(self) -> str:
        """How weights are stored, as schedules name it."""
        return "fp8" if self.data.dtype == FP8 else "bf16"

    @property
    def scale_or_any(self) -> Tensor:
        """The scale, or some tensor for a kernel argument that is not read."""
        return self.data if self.scale is None else self.scale

    def flat(self) -> Scaled:
        """Rows [16, H, D] as [16, H · D]."""
        return Scaled(self.data.view(ROWS, -1), self.scale, self.group)


def empty_rows(shape: tuple[int, ...], group: int, dtype: torch.dtype, device: torch.device) -> Scaled:
    """Zeroed rows [16, *shape]; in fp8 `group` inputs share a scale."""
    data = torch.zeros(ROWS, *shape, dtype=dtype, device=device)
    if dtype != FP8:
        return Scaled(data)
    width = data[0].numel()
    return Scaled(data, torch.zeros(-(-width // group), ROWS, device=device), group)
