"""Streaming matmuls with their buffers: made once, launched from anywhere, CUDA graphs included.

Shapes: R = 16 rows; N outputs, K inputs. Nothing here allocates or synchronises when called.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from specmon.kernels.head.pick import pick_kernel
from specmon.kernels.stream.embed import embed_kernel
from specmon.kernels.stream.gather import gather_kernel
from specmon.kernels.stream.head import head_kernel, winner_kernel
from specmon.kernels.stream.qkv import qkv_kernel
from specmon.kernels.stream.residual import residual_kernel
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows
from specmon.kernels.stream.schedule import Schedule, cdiv
from specmon.kernels.stream.shapes import HeadShape
from specmon.kernels.stream.swiglu import swiglu_kernel
from specmon.kernels.stream.winners import Winners

_AHEAD = 4 << 20  # bytes
_GATHERED = 2048  # numbers a program


def launch_options(device: torch.device) -> dict[str, bool]:
    """Programmatic dependent launch where the GPU has it (Hopper and newer); meta tensors stand for such a GPU.

    Multiplications fuse with additions whatever Triton's default is: it decides bits.
    """
    overlaps = device.type == "meta" or (
        device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9
    )
    overlap = {"PDL": True, "launch_pdl": True} if overlaps else {"PDL": False}
    return {"enable_fp_fusion": True, **overlap}


def has_time(device: torch.device) -> bool:
    """Whether kernels can read a clock there."""
    return device.type in ("cuda", "meta")


def reads_ahead(weight: Scaled) -> bool:
    """Whether a kernel asks for all of its weights before the kernel ahead of it is done, not just for its first tiles.

    Large ones would crowd each other out of the L2 cache.
    """
    return weight.data.nbytes <= _AHEAD


class Stream:
    """The residual stream of up to 16 rows between two matmuls.

    residual [16, D] fp32; h [16, D]: residual · the next norm's weight, not yet divided by its rms; sumsq [tiles, 16]:
    sums of squares of `tile` columns each. In fp8 a tile of h is what shares a scale.
    """

    def __init__(self, width: int, tile: int, dtype: torch.dtype, device: torch.device) -> None:
        self.width, self.tile = width, tile
        self.residual = torch.zeros(ROWS, width, device=device)
        self.h = empty_rows((width,), tile, dtype, device)
        self.n_tiles = cdiv(width, tile)
        self.sumsq = torch.zeros(self.n_tiles, ROWS, device=device)

    def rounded_to(self, dtype: torch.dtype) -> Stream:
        """This stream with h in another format, for a matmul whose weights have that."""
        if dtype == self.h.data.dtype:
            return self
        other = copy(self)
        other.h = empty_rows((self.width,), self.tile, dtype, self.residual.device)
        return other

    def over(self, residual: Tensor) -> Stream:
        """This stream with its residual kept elsewhere: rows [n_rows, D] fp32 or more."""
        other = copy(self)
        other.residual = residual
        return other


class Normed:
    """Rows that are normed already: h [16, K], and sums of squares whose 1/rms is one where eps is 0.

    In fp8 `group` numbers share a scale.
    """

    n_tiles = 1

    def __init__(self, width: int, group: int, dtype: torch.dtype, device: torch.device) -> None:
        self.h = empty_rows((width,), group, dtype, device)
        self.sumsq = torch.full((1, ROWS), float(width), device=device)


#: What qkv reads.
Entering = Stream | Normed


@dataclass(frozen=True)
class _Split:
    """Scratch of splits along K: what one op leaves, the next may overwrite."""

    partial: Tensor
    counter: Tensor

    @classmethod
    def of(cls, n_tiles: int, rows: int, k: int, schedule: Schedule, device: torch.device) -> _Split:
        """`rows`: weight rows of a tile. Raises: ValueError where a part of the K inputs would have none."""
        if (schedule.split - 1) * schedule.k_part(k) >= k:
            raise ValueError(f"{k} inputs do not make {schedule.split} parts of whole steps of {schedule.bk}")
        partial = torch.empty(n_tiles * schedule.split * rows * ROWS, device=device)
        return cls(partial, torch.zeros(n_tiles, dtype=torch.int32, device=device))


def _cut(s: Schedule, k: int) -> dict[str, int]:
    """How a matmul of `k` inputs that may be split is cut up, as its kernel takes it."""
    return {
        "PARTS": s.parts,
        "BK": s.bk,
        "SPLIT": s.split,
        "KS": s.k_part(k),
        "STAGES": s.stages,
        "num_warps": s.warps,
    }


class ResidualMatmul:
    """stream.residual += x Wᵀ (+ bias), and h for the norm that follows."""

    def __init__(self, weight: Scaled, bias: Tensor | None, schedule: Schedule) -> None:
        self.weight, self.bias, self.schedule = weight, bias, schedule
        self.n, self.k = weight.data.shape
        device = weight.data.device
        self._options = launch_options(device)
        n_tiles = cdiv(self.n, schedule.tile)
        self._ahead = reads_ahead(weight)
        self._scratch = _Split.of(n_tiles, schedule.tile, self.k, schedule, device)

    def __call__(self, x: Scaled, stream: Stream, norm: Tensor, n_rows: int) -> None:
        """Shapes: x [16, K]; norm [N] fp32. `stream.tile` must be the schedule's."""
        s, h = self.schedule, stream.h
        residual_kernel[(cdiv(self.n, s.tile) * s.parts, s.split)](
            self.weight.data, self.weight.scale_or_any, x.data, x.scale_or_any,
            self.bias if self.bias is not None else x.data, stream.residual, norm, h.data, h.scale_or_any,
            stream.sumsq, self._scratch.partial, self._scratch.counter, n_rows,
            N=self.n, K=self.k, HAS_BIAS=self.bias is not None,
            BN=s.bn, GROUP=x.group or s.bk, AHEAD=self._ahead, **_cut(s, self.k), **self._options,
        )  # fmt: skip


class SwigluMatmul:
    """out = silu(h W_gateᵀ / rms) · (h W_upᵀ / rms)."""

    def __init__(self, weight: Scaled, schedule: Schedule, eps: float) -> None:
        self.weight, self.schedule, self.eps = weight, schedule, eps
        self.n, self.k = weight.data.shape[0] // 2, weight.data.shape[1]
        device = weight.data.device
        self._options = launch_options(device)
        n_tiles = cdiv(self.n, schedule.tile)
        self._ahead = reads_ahead(weight)
        self._scratch = _Split.of(n_tiles, 2 * schedule.tile, self.k, schedule, device)

    def __call__(self, stream: Stream, out: Scaled, n_rows: int) -> None:
        """Shapes: out [16, N]; in fp8 its group is the schedule's tile."""
        s = self.schedule
        swiglu_kernel[(cdiv(self.n, s.tile) * s.parts, s.split)](
            self.weight.data, self.weight.scale_or_any, stream.h.data, stream.h.scale_or_any, stream.sumsq,
            out.data, out.scale_or_any, self._scratch.partial, self._scratch.counter, n_rows, self.eps,
            N=self.n, K=self.k, TILES_IN=stream.n_tiles, BN=s.bn, GROUP=stream.h.group or s.bk, AHEAD=self._ahead,
            **_cut(s, self.k), **self._options,
        )  # fmt: skip


class QkvMatmul:
    """q into a buffer, k and v into their slots of the cache, biased, normed and rotated."""

    def __init__(
        self,
        weight: Scaled,
        bias: Tensor | None,
        norms: tuple[Tensor, Tensor] | None,
        shape: HeadShape,
        schedule: Schedule,
        eps: float,
    ) -> None:
        self.weight, self.bias, self.norms, self.shape = weight, bias, norms, shape
        self.schedule, self.eps = schedule, eps
        self.n_all_heads, self.k = shape.n_heads + 2 * shape.n_kv_heads, weight.data.shape[1]
        device = weight.data.device
        self._options = launch_options(device)
        self._ahead = reads_ahead(weight)
        self._scratch = _Split.of(self.n_all_heads, shape.head_dim, self.k, schedule, device)

    def __call__(
        self,
        stream: Entering,
        cos: Tensor,
        sin: Tensor,
        positions: Tensor,
        slots: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        n_rows: int,
    ) -> None:
        """Shapes: cos, sin [places, D/2] fp32; positions, slots [16] int32; q [16, HQ, D]; k, v [S, HK, D].

        K and V may have any strides but the last.
        """
        s, shape = self.schedule, self.shape
        bias = self.bias if self.bias is not None else stream.sumsq
        q_norm, k_norm = self.norms if self.norms is not None else (stream.sumsq, stream.sumsq)
        qkv_kernel[(self.n_all_heads * s.parts, s.split)](
            self.weight.data, self.weight.scale_or_any, stream.h.data, stream.h.scale_or_any, stream.sumsq,
            bias, q_norm, k_norm, cos, sin, positions, slots,
            q, k, v, self._scratch.partial, self._scratch.counter, n_rows, self.eps,
            k.stride(1), k.stride(0), v.stride(1), v.stride(0),
            K=self.k, HQ=shape.n_heads, HK=shape.n_kv_heads, D=shape.head_dim,
            HAS_BIAS=self.bias is not None, HAS_NORM=self.norms is not None, TILES_IN=stream.n_tiles,
            GROUP=stream.h.group or s.bk, AHEAD=self._ahead, **_cut(s, self.k), **self._options,
        )  # fmt: skip


class HeadMatmul:
    """The winning token of each row, by how much it won and its probability; logits where asked for.

    Args:
        names: token ids of the outputs [N] int64; without it an output's number is its token.
    """

    def __init__(self, weight: Scaled, schedule: Schedule, eps: float, names: Tensor | None = None) -> None:
        self.weight, self.schedule, self.eps = weight, schedule, eps
        self.n, self.k = weight.data.shape
        device = weight.data.device
        self.names = names
        self.n_tiles = cdiv(self.n, schedule.bn)
        self._ahead = reads_ahead(weight)
        self._options = launch_options(device)
        self.best = torch.zeros(self.n_tiles, ROWS, device=device)
        self.second = torch.zeros(self.n_tiles, ROWS, device=device)
        self.index = torch.zeros(self.n_tiles, ROWS, dtype=torch.int32, device=device)
        self.mass = torch.zeros(self.n_tiles, ROWS, device=device)

    def __call__(
        self, stream: Stream, winners: Winners, n_rows: int, logits: Tensor | None = None, *, first: int = 0
    ) -> None:
        """Winners of rows first … n_rows-1, from the first place of `winners` on.

        Shapes: logits [n_rows, N] fp32 or longer, written for every row where given.
        """
        s = self.schedule
        head_kernel[(self.n_tiles,)](
            self.weight.data, self.weight.scale_or_any, stream.h.data, stream.h.scale_or_any, stream.sumsq,
            self.best, self.second, self.index, self.mass, logits if logits is not None else self.best, n_rows, self.eps,
            N=self.n, K=self.k, TILES_IN=stream.n_tiles, WRITE=logits is not None,
            BN=s.bn, BK=s.bk, GROUP=stream.h.group or s.bk, STAGES=s.stages, AHEAD=self._ahead,
            num_warps=s.warps, **self._options,
        )  # fmt: skip
        winner_kernel[(n_rows - first,)](
            self.best, self.second, self.index, self.mass, winners.tokens if self.names is None else self.names,
            winners.tokens, winners.margins, winners.probs, winners.stamps, first,
            TILES=self.n_tiles, NAMED=self.names is not None, STAMP=has_time(self.best.device), **self._options,
        )  # fmt: skip


def embed(
    tokens: Tensor, table: Tensor, norm: Tensor, stream: Stream, n_rows: int, stamps: Tensor | None = None
) -> None:
    """Start the stream with rows of the embedding, and the pass: `stamps` are its `Winners.stamps`.

    Shapes: tokens [16] int64; table [V, D]; norm [D] fp32.
    """
    device = stream.residual.device
    embed_kernel[(stream.n_tiles,)](
        tokens, table, norm, stream.residual, stream.h.data, stream.h.scale_or_any, stream.sumsq,
        tokens if stamps is None else stamps, n_rows,
        D=stream.width, BN=stream.tile, STAMP=stamps is not None and has_time(device), **launch_options(device),
    )  # fmt: skip


def pick(likely: Tensor, choices: Tensor, out: Tensor, n_picks: int) -> None:
    """Pick tokens from the likeliest at some places (`head.pick`), on `out`'s device.

    Shapes: likely [places, N] int64, contiguous; choices [3, 16] and out [16] int64.
    """
    n = likely.shape[1]
    pick_kernel[(n_picks,)](
        likely, choices, out, N=n, WIDTH=triton.next_power_of_2(n), num_warps=1, **launch_options(out.device)
    )


def gather(addresses: Tensor, out: Tensor, n_rows: int) -> None:
    """Fetch rows from where they lie, on `out`'s device.

    Shapes: addresses [≥ n_rows] int64, where N contiguous fp32 numbers begin; out [≥ n_rows, N] fp32.
    """
    width = out.shape[1]
    gather_kernel[(cdiv(width, _GATHERED), n_rows)](
        addresses, out, N=width, BLOCK=_GATHERED, **launch_options(out.device)
    )
