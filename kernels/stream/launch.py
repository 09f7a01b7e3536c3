"""Streaming matmuls with their buffers: made once, launched from anywhere, CUDA graphs included.

Shapes: R = 16 rows; N outputs, K inputs. Nothing here allocates or synchronises when called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specmon.kernels.stream.edges import embed_kernel, winner_kernel
from specmon.kernels.stream.matmul import ROWS, head_kernel, residual_kernel, swiglu_kernel
from specmon.kernels.stream.qkv import qkv_kernel
from specmon.kernels.stream.schedule import Schedule, cdiv, power_of_two


def launch_options(device: torch.device) -> dict[str, bool]:
    """Programmatic dependent launch where the GPU has it (Hopper and newer); meta tensors stand for such a GPU."""
    overlaps = device.type == "meta" or (
        device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9
    )
    return {"PDL": True, "launch_pdl": True} if overlaps else {"PDL": False}


class Stream:
    """The residual stream of up to 16 rows between two matmuls.

    residual [16, D] fp32; h [16, D]: residual · the next norm's weight, not yet divided by its rms; sumsq [tiles, 16]:
    sums of squares of `tile` columns each.
    """

    def __init__(self, width: int, tile: int, dtype: torch.dtype, device: torch.device) -> None:
        self.width, self.tile = width, tile
        self.residual = torch.zeros(ROWS, width, device=device)
        self.h = torch.zeros(ROWS, width, dtype=dtype, device=device)
        self.n_tiles = cdiv(width, tile)
        self.sumsq = torch.zeros(self.n_tiles, ROWS, device=device)

    @property
    def tiles(self) -> dict[str, int]:
        return {"TILES_IN": self.n_tiles, "TILES_P2": power_of_two(self.n_tiles)}


@dataclass(frozen=True)
class _Split:
    """Scratch of a split along K."""

    partial: Tensor
    counter: Tensor

    @classmethod
    def of(cls, n_tiles: int, split: int, bn: int, device: torch.device) -> _Split:
        partial = torch.empty(n_tiles * split * bn * ROWS, device=device)
        return cls(partial, torch.zeros(n_tiles, dtype=torch.int32, device=device))


class ResidualMatmul:
    """stream.residual += x Wᵀ (+ bias), and h for the norm that follows."""

    def __init__(self, weight: Tensor, bias: Tensor | None, schedule: Schedule) -> None:
        self.weight, self.bias, self.schedule = weight, bias, schedule
        self.n, self.k = weight.shape
        self._pdl = launch_options(weight.device)
        self._scratch = _Split.of(cdiv(self.n, schedule.bn), schedule.split, schedule.bn, weight.device)

    def __call__(self, x: Tensor, stream: Stream, norm: Tensor, n_rows: int) -> None:
        """Shapes: x [16, K]; norm [N] fp32. `stream.tile` must be the schedule's bn."""
        s = self.schedule
        residual_kernel[(cdiv(self.n, s.bn), s.split)](
            self.weight, x, self.bias if self.bias is not None else x, stream.residual, norm, stream.h,
            stream.sumsq, self._scratch.partial, self._scratch.counter, n_rows,
            N=self.n, K=self.k, HAS_BIAS=self.bias is not None,
            BN=s.bn, BK=s.bk, SPLIT=s.split, STAGES=s.stages, num_warps=s.warps, **self._pdl,
        )  # fmt: skip


class SwigluMatmul:
    """out = silu(h W_gateᵀ / rms) · (h W_upᵀ / rms)."""

    def __init__(self, weight: Tensor, schedule: Schedule, eps: float) -> None:
        self.weight, self.schedule, self.eps = weight, schedule, eps
        self.n, self.k = weight.shape[0] // 2, weight.shape[1]
        self._pdl = launch_options(weight.device)

    def __call__(self, stream: Stream, out: Tensor, n_rows: int) -> None:
        """Shapes: out [16, N]."""
        s = self.schedule
        swiglu_kernel[(cdiv(self.n, s.bn),)](
            self.weight, stream.h, stream.sumsq, out, n_rows, self.eps,
            N=self.n, K=self.k, **stream.tiles, BN=s.bn, BK=s.bk, STAGES=s.stages, num_warps=s.warps, **self._pdl,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """Query heads, KV heads and head size of an attention layer."""

    n_heads: int
    n_kv_heads: int
    head_dim: int


class QkvMatmul:
    """q into a buffer, k and v into their slots of the cache, biased, normed and rotated."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        norms: tuple[Tensor, Tensor] | None,
        shape: HeadShape,
        schedule: Schedule,
        eps: float,
    ) -> None:
        self.weight, self.bias, self.norms, self.shape = weight, bias, norms, shape
        self.schedule, self.eps = schedule, eps
        self.n_programs = shape.n_heads + 2 * shape.n_kv_heads
        self._pdl = launch_options(weight.device)
        self._scratch = _Split.of(self.n_programs, schedule.split, shape.head_dim, weight.device)

    def __call__(
        self,
        stream: Stream,
        cos: Tensor,
        sin: Tensor,
        cursor: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        n_rows: int,
    ) -> None:
        """Shapes: cos, sin [positions, D/2] fp32; cursor [1] int32; q [16, HQ, D]; k, v [S, HK, D], D contiguous."""
        s, shape = self.schedule, self.shape
        bias = self.bias if self.bias is not None else stream.h
        q_norm, k_norm = self.norms if self.norms is not None else (stream.h, stream.h)
        qkv_kernel[(self.n_programs, s.split)](
            self.weight, stream.h, stream.sumsq, bias, q_norm, k_norm, cos, sin, cursor,
            q, k, v, self._scratch.partial, self._scratch.counter, n_rows, self.eps,
            k.stride(1), k.stride(0), v.stride(1), v.stride(0),
            K=self.weight.shape[1], HQ=shape.n_heads, HK=shape.n_kv_heads, D=shape.head_dim,
            HAS_BIAS=self.bias is not None, HAS_NORM=self.norms is not None, **stream.tiles,
            BK=s.bk, SPLIT=s.split, STAGES=s.stages, num_warps=s.warps, **self._pdl,
        )  # fmt: skip


class HeadMatmul:
    """The winning token of each row, and by how much it won; logits where asked for."""

    def __init__(self, weight: Tensor, schedule: Schedule, eps: float) -> None:
        self.weight, self.schedule, self.eps = weight, schedule, eps
        self.n, self.k = weight.shape
        n_tiles, device = cdiv(self.n, schedule.bn), weight.device
        self._n_tiles = n_tiles
        self._pdl = launch_options(device)
        self._best = torch.zeros(n_tiles, ROWS, device=device)
        self._second = torch.zeros(n_tiles, ROWS, device=device)
        self._index = torch.zeros(n_tiles, ROWS, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(ROWS, dtype=torch.int64, device=device)
        self.margins = torch.zeros(ROWS, device=device)

    def __call__(self, stream: Stream, n_rows: int, logits: Tensor | None = None) -> None:
        """Shapes: logits [16, N] fp32, written where given."""
        s = self.schedule
        options: dict[str, Any] = {
            "BN": s.bn,
            "BK": s.bk,
            "STAGES": s.stages,
            "num_warps": s.warps,
            **self._pdl,
        }
        head_kernel[(self._n_tiles,)](
            self.weight, stream.h, stream.sumsq, self._best, self._second, self._index,
            logits if logits is not None else self._best, n_rows, self.eps,
            N=self.n, K=self.k, **stream.tiles, WRITE=logits is not None, **options,
        )  # fmt: skip
        winner_kernel[(n_rows,)](
            self._best, self._second, self._index, self.tokens, self.margins,
            TILES=self._n_tiles, TILES_P2=power_of_two(self._n_tiles), **self._pdl,
        )  # fmt: skip


def embed(tokens: Tensor, table: Tensor, norm: Tensor, stream: Stream, n_rows: int) -> None:
    """Start the stream with rows of the embedding. Shapes: tokens [16] int64; table [V, D]; norm [D] fp32."""
    embed_kernel[(stream.n_tiles,)](
        tokens, table, norm, stream.residual, stream.h, stream.sumsq, n_rows, D=stream.width, BN=stream.tile,
        **launch_options(tokens.device),
    )  # fmt: skip
