"""One streaming matmul over many distinct weights, launched as a model launches it and timed by graph replay.

So many weights that none is still in a cache when its turn comes again: what is timed is a stream from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from specmon.kernels.quantise.reference import FP8, quantise_channels, quantise_groups
from specmon.kernels.stream.launch import HeadMatmul, QkvMatmul, ResidualMatmul, Stream, SwigluMatmul
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows
from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.shapes import Matmul
from specmon.kernels.stream.winners import WORDS, Winners

_EPS = 1e-6
_TILE = 64  # columns of one sum of squares in the stream that qkv, gate_up and head read
_POSITIONS, _CURSOR = 256, 100
_ROW_COUNTS = (1, 5, 16)
_TIMED_ROWS = 5

Step = Callable[[int], None]


class StreamBench:
    """A `Matmul` on `device`: at least `weight_bytes` of weights, 128 matrices at most. `dtype`: of all that is not fp8."""

    def __init__(
        self,
        matmul: Matmul,
        device: torch.device,
        *,
        dtype: torch.dtype = torch.bfloat16,
        weight_bytes: int = 512 << 20,
    ) -> None:
        self.matmul, self.device, self.dtype = matmul, device, dtype
        self._random = torch.Generator(device).manual_seed(0)
        shape = (matmul.weight_rows, matmul.k)
        self._rows = FP8 if matmul.weights == "fp8" else dtype
        one = shape[0] * shape[1] * self._rows.itemsize
        count = min(128, max(1, -(-weight_bytes // one)))
        self.weights = [self._weight(self._draw(*shape) / matmul.k**0.5) for _ in range(count)]
        self._bias = self._draw(matmul.n) if matmul.biased else None
        heads = matmul.heads
        self._head_norms = None
        if matmul.head_norms and heads is not None:
            self._head_norms = (
                self._draw(heads.head_dim).float(),
                self._draw(heads.head_dim).float(),
            )
        self._x = self._activation(self._draw(ROWS, matmul.k))
        self._residual = self._draw(ROWS, matmul.n).float()
        self._squares = self._draw(ROWS).float().square() * _TILE
        self._norm = self._draw(matmul.n).float()

    def _draw(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._random, device=self.device, dtype=self.dtype)

    def _weight(self, floats: Tensor) -> Scaled:
        return Scaled(*quantise_channels(floats)) if self._rows == FP8 else Scaled(floats)

    def _activation(self, floats: Tensor) -> Scaled:
        if self._rows != FP8:
            return Scaled(floats)
        data, scale = quantise_groups(floats, self.matmul.group)
        return Scaled(data, scale.T.contiguous(), self.matmul.group)

    def output(self, schedule: Schedule) -> list[Tensor]:
        found = []
        for n_rows in _ROW_COUNTS:
            step, written = self._prepare(self.weights[0], schedule, whole=True)
            step(n_rows)
            found += [tensor.clone() for tensor in written]
        return found

    def times_us(self, schedules: Sequence[Schedule], rounds: int) -> list[list[float]]:
        """As `search.Bench`; needs CUDA. Each round starts with another schedule, so that none has the best place."""
        event: Any = torch.cuda.Event
        prepared = [self._graph(schedule) for schedule in schedules]
        times: list[list[float]] = [[] for _ in schedules]
        for first in range(rounds):
            for i in islice(cycle(range(len(prepared))), first, first + len(prepared)):
                start, end = event(enable_timing=True), event(enable_timing=True)
                start.record()
                prepared[i][0].replay()
                end.record()
                end.synchronize()
                times[i].append(start.elapsed_time(end) * 1e3 / len(self.weights))
        return times

    def _graph(self, schedule: Schedule) -> tuple[torch.cuda.CUDAGraph, list[Step]]:
        """A launch on every weight, and what must live as long as the graph: the launches' buffers."""
        steps = [self._prepare(weight, schedule)[0] for weight in self.weights]
        steps[0](_TIMED_ROWS)  # compiles
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for step in steps:
                step(_TIMED_ROWS)
        graph.replay()
        return graph, steps

    def _prepare(
        self, weight: Scaled, schedule: Schedule, *, whole: bool = False
    ) -> tuple[Step, list[Tensor]]:
        """A launch of so many rows on fresh buffers, and what it writes; `whole`: also what is optional."""
        match self.matmul.op:
            case "qkv":
                return self._qkv(weight, schedule)
            case "gate_up":
                return self._swiglu(weight, schedule)
            case "head":
                return self._head(weight, schedule, whole)
            case _:
                return self._add(weight, schedule)

    def _read(self) -> Stream:
        """The stream that qkv, gate_up and head read."""
        stream = Stream(self.matmul.k, _TILE, self._rows, self.device)
        stream.h = self._x
        stream.sumsq.copy_(self._squares.expand_as(stream.sumsq))
        return stream

    def _add(self, weight: Scaled, schedule: Schedule) -> tuple[Step, list[Tensor]]:
        op = ResidualMatmul(weight, self._bias, schedule)
        stream = Stream(self.matmul.n, schedule.tile, self._rows, self.device)
        stream.residual.copy_(self._residual)
        written = [stream.residual, *_tensors(stream.h), stream.sumsq]
        return lambda n_rows: op(self._x, stream, self._norm, n_rows), written

    def _swiglu(self, weight: Scaled, schedule: Schedule) -> tuple[Step, list[Tensor]]:
        op, stream = SwigluMatmul(weight, schedule, _EPS), self._read()
        out = empty_rows((self.matmul.n,), schedule.tile, self._rows, self.device)
        return lambda n_rows: op(stream, out, n_rows), _tensors(out)

    def _head(self, weight: Scaled, schedule: Schedule, whole: bool) -> tuple[Step, list[Tensor]]:
        op, stream = HeadMatmul(weight, schedule, _EPS), self._read()
        logits = torch.zeros(ROWS, self.matmul.n, device=self.device) if whole else None
        winners = Winners.within(torch.zeros(WORDS, dtype=torch.int64, device=self.device))
        # A probability's last bits follow the tiles; it decides no token and is not held to them.
        written = [winners.tokens, winners.margins] + ([logits] if logits is not None else [])
        return lambda n_rows: op(stream, winners, n_rows, logits), written

    def _qkv(self, weight: Scaled, schedule: Schedule) -> tuple[Step, list[Tensor]]:
        heads = self.matmul.heads
        assert heads is not None
        op = QkvMatmul(weight, self._bias, self._head_norms, heads, schedule, _EPS)
        stream = self._read()
        angles = torch.arange(_POSITIONS * heads.head_dim // 2, device=self.device).view(_POSITIONS, -1) * 0.1
        cos, sin = angles.cos(), angles.sin()
        at = torch.arange(_CURSOR, _CURSOR + ROWS, dtype=torch.int32, device=self.device)
        q = torch.zeros(ROWS, heads.n_heads, heads.head_dim, dtype=self.dtype, device=self.device)
        k, v = torch.zeros(
            2, _POSITIONS, heads.n_kv_heads, heads.head_dim, dtype=self.dtype, device=self.device
        )
        return lambda n_rows: op(stream, cos, sin, at, at, q, k, v, n_rows), [q, k, v]


def _tensors(rows: Scaled) -> list[Tensor]:
    return [rows.data] if rows.scale is None else [rows.data, rows.scale]
