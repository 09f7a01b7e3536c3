"""Sampling of up to 16 rows on the device: buffers at static addresses, nothing waited for, CUDA graphs included."""

from __future__ import annotations

import torch
from torch import Tensor

from specmon.kernels.sample.draw import draw_kernel, drawn_kernel
from specmon.kernels.sample.filters import floors
from specmon.kernels.sample.reference import inverse_temperature
from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.stream.schedule import cdiv

_BLOCK = 1024  # tokens a program: 149 programs for a row of 152,064


class Sampler:
    """Draws the tokens of rows of `n_tokens` logits.

    Seed and temperature may change between replays of a graph that holds a draw (`begin`); top_k and top_p are part of it.

    Raises: ValueError at temperature 0, which is greedy and draws nothing.
    """

    def __init__(self, n_tokens: int, device: torch.device) -> None:
        self.n_tokens = n_tokens
        self._tiles = cdiv(n_tokens, _BLOCK)
        self._options = launch_options(device)
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self._inverse = torch.ones(1, device=device)
        self._best = torch.zeros(self._tiles, ROWS, device=device)
        self._second = torch.zeros(self._tiles, ROWS, device=device)
        self._index = torch.zeros(self._tiles, ROWS, dtype=torch.int32, device=device)
        self._top_k, self._top_p = 0, 1.0

    def begin(self, seed: int, temperature: float, *, top_k: int = 0, top_p: float = 1.0) -> None:
        """How tokens are drawn from now on. `seed`: its lowest 64 bits count; `top_k` 0 and `top_p` 1 filter nothing."""
        self._inverse.fill_(inverse_temperature(temperature))
        self._seed.fill_((seed + (1 << 63)) % (1 << 64) - (1 << 63))
        self._top_k, self._top_p = top_k, top_p

    def __call__(
        self, logits: Tensor, positions: Tensor, tokens: Tensor, margins: Tensor, n_rows: int
    ) -> None:
        """Draw a token for each of `n_rows` rows.

        Shapes: logits [≥ n_rows, V] fp32, V contiguous; positions [≥ n_rows] int32, where each token will stand in the
            text; tokens [16] int64; margins [16] fp32: by how much the token's score won, inf where it was alone.
        """
        lowest = floors(logits[:n_rows], self._inverse, self._top_k, self._top_p)
        draw_kernel[(self._tiles, n_rows)](
            logits, logits.stride(0), lowest, positions, self._seed, self._inverse,
            self._best, self._second, self._index, V=self.n_tokens, BLOCK=_BLOCK, num_warps=4, **self._options,
        )  # fmt: skip
        drawn_kernel[(n_rows,)](
            self._best, self._second, self._index, tokens, margins, TILES=self._tiles, **self._options
        )
