"""Launches split-KV attention with its scratch; see `chunked` for how rows stay exact."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.kernels.attention.branched import attend_branches_kernel
from specmon.kernels.attention.chunked import attend_kernel
from specmon.kernels.attention.merge import merge_kernel
from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.scaled import ROWS, Scaled
from specmon.kernels.stream.schedule import cdiv

CHUNK = 256
_PROGRAMS_A_CHIP = 128
_QUERY_TILE = 16  # the narrowest that matrix units take: 2 rows of 7 heads a KV head
_MERGE_TILE = 16  # entries of a head that a program of the tiled merge takes


@dataclass(frozen=True, kw_only=True)
class Merge:
    """A way to merge chunks. Both give the same bits; `version` rises when one's may change, the backend's with it."""

    name: str
    version: int

    @property
    def label(self) -> str:
        return f"{self.name}-{self.version}"


UNTILED = Merge(name="untiled", version=1)  # by the program of a tile that arrives last
TILED = Merge(name="tiled", version=1)  # by D / 16 programs of a second kernel

#: Keys from which chunks are merged tiled. On an H200 both take as long up to 1,024 keys; from 2,048 on a second kernel
#: takes less than one program for all chunks, at the 7B shape 8.2 against 8.9 µs there and 12.8 against 16.5 at 8,192.
TILED_FROM = 2_048


def merge_for(length: int) -> Merge:
    """The merge for a pass whose last row sees `length` keys."""
    return TILED if length >= TILED_FROM else UNTILED


@dataclass(frozen=True, kw_only=True)
class Branched:
    """Where rows of several continuations stand (`branched`); tables on the device, set before the pass begins.

    Shapes: positions [16] int32, and the slots rows are stored in alike; prefixes [16] int32, how much of the main line
    each sees; own [n, 16] int32, the slot of row r's position prefixes[r] + i at [i, r], its own one among them; ends [16]
    int32, the last position each sees, None where that is its own.
    """

    positions: Tensor
    slots: Tensor
    prefixes: Tensor
    own: Tensor
    ends: Tensor | None = None

    @property
    def sees_to(self) -> Tensor:
        return self.positions if self.ends is None else self.ends


class SplitAttention:
    """Attention of up to 16 rows at a cursor on the device, over a cache of at most `n_slots`."""

    def __init__(
        self,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        n_slots: int,
        device: torch.device,
        *,
        query_tile: int = _QUERY_TILE,
        chunk: int = CHUNK,
        warps: int = 8,
    ) -> None:
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        group = n_heads // n_kv_heads
        while query_tile < group:
            query_tile *= 2
        self.query_tile, self.chunk, self.warps = query_tile, chunk, warps
        self.rows_a_tile = query_tile // group
        self.max_chunks = cdiv(n_slots, chunk)
        most = max(1, _PROGRAMS_A_CHIP // n_kv_heads)
        self.programs = min(self.max_chunks, most)
        self.branch_programs = min(self.max_chunks + self.rows_a_tile, most)
        groups = n_kv_heads * cdiv(ROWS, self.rows_a_tile)
        columns = groups * self.max_chunks * query_tile
        self.part = torch.empty(columns * head_dim, device=device)
        self.peak = torch.empty(columns, device=device)
        self.mass = torch.empty(columns, device=device)
        self._options = launch_options(device)
        self.counter = torch.zeros(groups, dtype=torch.int32, device=device)

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cursor: Tensor,
        out: Scaled,
        n_rows: int,
        merge: Merge = UNTILED,
    ) -> None:
        """Attend, and merge chunks by `merge`, which changes no bit.

        Shapes: q, out [16, H, D], in fp8 with group D; k, v [S, HK, D], any strides but the last; cursor [1] int32
        or longer.
        """
        tiles, tiled = cdiv(n_rows, self.rows_a_tile), merge == TILED
        attend_kernel[(self.n_kv_heads, tiles, self.programs)](
            q, k, v, cursor, out.data, out.scale_or_any, self.part, self.peak, self.mass, self.counter, n_rows,
            self.head_dim**-0.5,
            k.stride(1), k.stride(0), v.stride(1), v.stride(0),
            H=self.n_heads, HK=self.n_kv_heads, D=self.head_dim, QT=self.query_tile,
            CHUNK=self.chunk, PROGRAMS=self.programs, MAX_CHUNKS=self.max_chunks, TILED=tiled, num_warps=self.warps,
            **self._options,
        )  # fmt: skip
        if tiled and self.max_chunks > 1:
            self._merge(tiles, cursor, out, n_rows, branches=False)

    def branches(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        at: Branched,
        out: Scaled,
        n_rows: int,
        merge: Merge = UNTILED,
    ) -> None:
        """Attend as `__call__` does, rows standing where `at` says: the bits of rows alone after the same keys."""
        tiles, tiled = cdiv(n_rows, self.rows_a_tile), merge == TILED
        attend_branches_kernel[(self.n_kv_heads, tiles, self.branch_programs)](
            q, k, v, at.sees_to, at.prefixes, at.own, out.data, out.scale_or_any,
            self.part, self.peak, self.mass, self.counter, n_rows, self.head_dim**-0.5,
            k.stride(1), k.stride(0), v.stride(1), v.stride(0),
            H=self.n_heads, HK=self.n_kv_heads, D=self.head_dim, QT=self.query_tile, CHUNK=self.chunk,
            PROGRAMS=self.branch_programs, MAX_CHUNKS=self.max_chunks, TILED=tiled, num_warps=self.warps,
            **self._options,
        )  # fmt: skip
        if tiled:
            self._merge(tiles, at.sees_to, out, n_rows, branches=True)

    def _merge(self, tiles: int, positions: Tensor, out: Scaled, n_rows: int, *, branches: bool) -> None:
        entries = min(_MERGE_TILE, self.head_dim)
        merge_kernel[(self.n_kv_heads, tiles, self.head_dim // entries)](
            self.part, self.peak, self.mass, self.counter, positions, out.data, out.scale_or_any, n_rows,
            H=self.n_heads, HK=self.n_kv_heads, D=self.head_dim, DT=entries, QT=self.query_tile,
            CHUNK=self.chunk, MAX_CHUNKS=self.max_chunks, BRANCHES=branches, num_warps=4, **self._options,
        )  # fmt: skip
