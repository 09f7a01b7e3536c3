"""How the target chooses its token: greedy, or sampled the same way whatever the decoder.

Sampling adds Gumbel noise that is a function of (seed, position, token) alone and takes the maximum, which draws from
the softmax exactly. AR, SD and SSD therefore draw the same token at a position, and a drafted token is accepted just when
it is the one drawn: lossless for drafts that are not themselves sampled. On CUDA a Triton kernel draws, elsewhere its
reference: the same token for the same logits, but where two scores differ by the rounding of a logarithm.
Source: `kernels.sample.reference`; Leviathan et al. 2023 for what lossless means.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specmon.core.events import Sampling
from specmon.kernels.head.reference import argmax_rows
from specmon.kernels.sample.reference import draw_rows

if TYPE_CHECKING:
    from specmon.kernels.sample.launch import Sampler

_MOST_ROWS = 16  # of a launch


class Chooser:
    """Chooses a token for each row of logits."""

    def __init__(self, sampling: Sampling, seed: int) -> None:
        self._sampling, self._seed = sampling, seed
        self._sampler: Sampler | None = None

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
        logits_RV = logits_RV.float()
        if logits_RV.is_cuda and _has_triton():
            return self._draw(logits_RV, positions)
        s = self._sampling
        drawn = draw_rows(logits_RV, positions, self._seed, s.temperature, top_k=s.top_k, top_p=s.top_p)
        return [int(i) for i in drawn.tolist()]

    def _draw(self, logits_RV: Tensor, positions: Sequence[int]) -> list[int]:
        """Through the Triton kernel; waits for the tokens, once."""
        device = logits_RV.device
        with torch.cuda.device(device):
            sampler = self._sampler = self._sampler or self._new_sampler(logits_RV.shape[1], device)
            at = torch.tensor(positions, dtype=torch.int32, device=device)
            drawn = []
            for rows, where in zip(
                torch.split(logits_RV, _MOST_ROWS), torch.split(at, _MOST_ROWS), strict=True
            ):
                tokens = torch.empty(_MOST_ROWS, dtype=torch.int64, device=device)
                sampler(rows, where, tokens, torch.empty(_MOST_ROWS, device=device), len(rows))
                drawn.append(tokens[: len(rows)])
            return [int(i) for i in torch.cat(drawn).tolist()]

    def _new_sampler(self, n_tokens: int, device: torch.device) -> Sampler:
        from specmon.kernels.sample.launch import Sampler

        sampler, s = Sampler(n_tokens, device), self._sampling
        sampler.begin(self._seed, s.temperature, top_k=s.top_k, top_p=s.top_p)
        return sampler


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
