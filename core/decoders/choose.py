"""How the target chooses its token: greedy, or sampled the same way whatever the decoder.

Sampling adds Gumbel noise that is a function of (seed, position) alone and takes the maximum, which draws from the softmax
exactly. AR, SD and SSD therefore draw the same token at a position, and a drafted token is accepted just when it is the one
drawn: lossless for drafts that are not themselves sampled.
Source: Gumbel 1954 (the maximum trick); Leviathan et al. 2023 for what lossless means.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specmon.core.events import Sampling
from specmon.kernels.head.reference import argmax_rows


class Chooser:
    """Chooses a token for each row of logits."""

    def __init__(self, sampling: Sampling, seed: int) -> None:
        self._sampling, self._seed = sampling, seed

    @classmethod
    def greedy(cls) -> Chooser:
        return cls(Sampling(), 0)

    @property
    def is_greedy(self) -> bool:
        return self._sampling.temperature <= 0

    def choose(self, logits_RV: Tensor, positions: Sequence[int]) -> list[int]:
        """One token id a row. `positions`: where each chosen token will stand in the text."""
        if self.is_greedy:
            return [int(i) for i in argmax_rows(logits_RV).tolist()]
        return [self._draw(row, position) for row, position in zip(logits_RV, positions, strict=True)]

    def _draw(self, logits_V: Tensor, position: int) -> int:
        scaled = _filtered(logits_V.float().cpu() / self._sampling.temperature, self._sampling)
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + position) & 0x7FFF_FFFF_FFFF_FFFF)
        uniform = torch.rand(scaled.shape, generator=generator, dtype=torch.float64)
        return int((scaled - torch.log(-torch.log(uniform))).argmax())


def _filtered(logits_V: Tensor, sampling: Sampling) -> Tensor:
    """-inf outside the top k tokens and outside the smallest set whose probability reaches top p."""
    if 0 < sampling.top_k < logits_V.numel():
        kth = logits_V.topk(sampling.top_k).values[-1]
        logits_V = logits_V.masked_fill(logits_V < kth, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logits_V.sort(descending=True)
        probability = ordered.softmax(dim=-1)
        beyond = probability.cumsum(dim=-1) - probability >= sampling.top_p
        logits_V = logits_V.index_fill(0, order[beyond], -torch.inf)
    return logits_V
