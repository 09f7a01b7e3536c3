"""Rounding to e4m3: weights with a scale an output channel, activations with a scale a row and group of inputs.

A scale takes the largest value of its group to e4m3's largest, 448.
Source: DeepSeek-V3 technical report (2024), fine-grained quantisation.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

FP8 = torch.float8_e4m3fn
E4M3_MAX = 448.0
_SMALLEST = 1e-12  # a group of zeros still has a scale to divide by


def quantise_channels(weight_NK: Tensor) -> tuple[Tensor, Tensor]:
    """Weights to e4m3. Shapes: [N, K] -> [N, K] e4m3, scale [N] fp32."""
    scale_N = weight_NK.float().abs().amax(dim=1).clamp_min(_SMALLEST) / E4M3_MAX
    return (weight_NK.float() / scale_N[:, None]).to(FP8), scale_N


def quantise_groups(x_RK: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """Activations to e4m3; the last group may be short. Shapes: [R, K] -> [R, K] e4m3, scale [R, ⌈K / group⌉] fp32."""
    n_rows, width = x_RK.shape
    padded = F.pad(x_RK.float(), (0, -width % group)).view(n_rows, -1, group)
    scale = padded.abs().amax(dim=2).clamp_min(_SMALLEST) / E4M3_MAX
    rounded = (padded / scale[:, :, None]).view(n_rows, -1)[:, :width]
    return rounded.to(FP8), scale


def widen_groups(x_RK: Tensor, scale_RG: Tensor, group: int) -> Tensor:
    """Undo `quantise_groups`, in fp32."""
    return x_RK.float() * scale_RG.repeat_interleave(group, dim=1)[:, : x_RK.shape[1]]
