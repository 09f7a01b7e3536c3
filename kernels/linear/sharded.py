"""A matmul shared out over several devices by output rows: tensor parallelism that never adds up partial sums.

Each device holds some rows of W and computes their outputs from all of x, so that an output has the bits it has on one
device; x goes to every device and the outputs come back to the first, on CUDA through NCCL's broadcast and peer copies.
Splitting by columns of W (Shoeybi et al. 2019, "Megatron-LM", does both in turn) would save one exchange of two, but its
sums come in an order that changes with the number of devices.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.cuda import comm

from specmon.kernels.linear.base import Linear


class ShardedLinear:
    """y = x Wᵀ (+ bias), with consecutive rows of W in `parts`; x and y are on the first part's device."""

    def __init__(self, parts: Sequence[Linear], devices: Sequence[torch.device]) -> None:
        self.parts, self.devices = tuple(parts), tuple(devices)
        self.dtype, self.in_features = parts[0].dtype, parts[0].in_features
        self.out_features = sum(part.out_features for part in parts)
        self.weight_bytes = sum(part.weight_bytes for part in parts)
        self._on_gpus = all(device.type == "cuda" for device in devices)

    def __call__(self, x_RK: Tensor) -> Tensor:
        """Multiply R rows. Shapes: x_RK [R, K] -> [R, N]."""
        outputs = [part(x) for part, x in zip(self.parts, self._copies(x_RK), strict=True)]
        if not self._on_gpus:
            return torch.cat(outputs, dim=1)
        y_RN: Tensor = comm.gather(outputs, dim=1, destination=self.devices[0])  # type: ignore[no-untyped-call]
        return y_RN

    def _copies(self, x_RK: Tensor) -> Sequence[Tensor]:
        if not self._on_gpus:
            return [x_RK] * len(self.parts)
        copies: Sequence[Tensor] = comm.broadcast(x_RK.contiguous(), self.devices)  # type: ignore[no-untyped-call]
        return copies


def row_shares(n_rows: int, n_parts: int) -> list[slice]:
    """`n_rows` rows in `n_parts` runs as even as can be."""
    ends = [n_rows * (i + 1) // n_parts for i in range(n_parts)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def bytes_by_device(linears: Sequence[Linear], n_devices: int) -> tuple[int, ...]:
    """Bytes one call of each reads on each device; what is not shared out is on the first."""
    totals = [0] * n_devices
    for linear in linears:
        parts = linear.parts if isinstance(linear, ShardedLinear) else (linear,)
        for i, part in enumerate(parts):
            totals[i] += part.weight_bytes
    return tuple(totals)
