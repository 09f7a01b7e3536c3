"""Chunks merged by one program and cut along the head size: the same bits, whatever the number of chunks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.kernels.attention.split import TILED, TILED_FROM, UNTILED, SplitAttention, merge_for
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CHUNK_COUNTS = [1, 2, 3, 17, 130]
gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Case:
    """Queries and a cache whose K and V lie differently, NaN from the cursor's rows on.

    Scores are wide, so that chunks differ in peak and mass.
    """

    def __init__(
        self, heads: tuple[int, int, int], chunk: int, n_chunks: int, n_rows: int, dtype: torch.dtype
    ) -> None:
        self.heads, self.chunk, self.n_rows = heads, chunk, n_rows
        n_heads, n_kv_heads, head_dim = heads
        self.length = max(n_rows, n_chunks * chunk - chunk // 3)
        self.n_slots = self.length + 3 * chunk
        self.q = (3 * torch.randn(ROWS, n_heads, head_dim, device=DEVICE)).to(dtype)
        self.keys = torch.randn(n_kv_heads, self.n_slots, head_dim, device=DEVICE).to(dtype).transpose(0, 1)
        self.values = torch.randn(self.n_slots, n_kv_heads, head_dim, device=DEVICE).to(dtype)
        self.keys[self.length :] = torch.nan
        self.values[self.length :] = torch.nan
        self.cursor = torch.tensor([self.length - n_rows], dtype=torch.int32, device=DEVICE)

    def attention(self) -> SplitAttention:
        """What it holds from other passes is NaN, so that a read of more chunks than are in use shows."""
        attention = SplitAttention(*self.heads, self.n_slots, DEVICE, chunk=self.chunk)
        for scratch in (attention.part, attention.peak, attention.mass):
            scratch.fill_(torch.nan)
        return attention

    def run(self, attention: SplitAttention, dtype: torch.dtype, *, tiled: bool) -> Scaled:
        out = empty_rows(self.heads[::2], self.heads[2], dtype, DEVICE)
        attention(self.q, self.keys, self.values, self.cursor, out, self.n_rows, TILED if tiled else UNTILED)
        return out

    def checked(self) -> list[int]:
        """The first row and the last."""
        return sorted({0, self.n_rows - 1})

    def expected(self) -> Tensor:
        """What fp64 gives for the rows `checked`."""
        n_heads, n_kv_heads, head_dim = self.heads
        rows = []
        for row in self.checked():
            length = self.length - self.n_rows + row + 1
            keys, values = (
                t[:length].double().transpose(0, 1).repeat_interleave(n_heads // n_kv_heads, dim=0)
                for t in (self.keys, self.values)
            )
            score = (keys @ self.q[row].double()[:, :, None])[:, :, 0] / head_dim**0.5
            rows.append((score.softmax(-1)[:, None] @ values)[:, 0])
        return torch.stack(rows)


def assert_same(a: Scaled, b: Scaled) -> None:
    assert torch.equal(a.data.view(torch.uint8), b.data.view(torch.uint8))
    if a.scale is not None:
        assert b.scale is not None
        assert torch.equal(a.scale, b.scale)


@pytest.mark.parametrize(
    ("heads", "n_rows", "n_chunks"),
    [((6, 2, 32), 7, n) for n in CHUNK_COUNTS[:-1]] + [((3, 1, 64), 2, n) for n in CHUNK_COUNTS],
    ids=str,
)
def test_both_merges_give_the_same_bits(heads: tuple[int, int, int], n_rows: int, n_chunks: int) -> None:
    case = Case(heads, 16, n_chunks, n_rows, torch.float32)
    untiled, tiled = (case.run(case.attention(), torch.float32, tiled=t) for t in (False, True))

    assert_same(untiled, tiled)
    torch.testing.assert_close(tiled.data[case.checked()].double(), case.expected(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_chunks", [1, 2, 17])
def test_both_merges_round_a_head_to_fp8_alike(n_chunks: int) -> None:
    case = Case((6, 2, 64), 16, n_chunks, 3, torch.float32)
    untiled, tiled = (case.run(case.attention(), FP8, tiled=t) for t in (False, True))

    assert_same(untiled, tiled)
    assert tiled.scale is not None
    assert bool((tiled.scale[:, :3] > 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, FP8], ids=str)
@pytest.mark.parametrize("tiled", [False, True])
def test_a_merge_leaves_its_scratch_ready_for_the_next(tiled: bool, dtype: torch.dtype) -> None:
    long, short = Case((6, 2, 32), 16, 5, 3, torch.float32), Case((6, 2, 32), 16, 2, 3, torch.float32)
    attention = long.attention()
    alone = short.run(short.attention(), dtype, tiled=tiled)
    first = long.run(attention, dtype, tiled=tiled)

    assert_same(short.run(attention, dtype, tiled=tiled), alone)
    assert_same(long.run(attention, dtype, tiled=tiled), first)


def test_a_passes_length_chooses_the_merge() -> None:
    assert merge_for(TILED_FROM - 1) == UNTILED
    assert merge_for(TILED_FROM) == TILED
    assert [merge.label for merge in (UNTILED, TILED)] == ["untiled-1", "tiled-1"]


@pytest.mark.parametrize("out", [torch.bfloat16, FP8], ids=str)
@pytest.mark.parametrize("n_rows", [1, 5, 16])
@pytest.mark.parametrize("n_chunks", CHUNK_COUNTS)
@pytest.mark.parametrize("heads", [(28, 4, 128), (9, 3, 64)], ids=str)
class TestOnAGpu:
    pytestmark = gpu

    def test_both_merges_give_the_same_bits(
        self, heads: tuple[int, int, int], n_chunks: int, n_rows: int, out: torch.dtype
    ) -> None:
        case = Case(heads, 256, n_chunks, n_rows, torch.bfloat16)
        untiled, tiled = (case.run(case.attention(), out, tiled=t) for t in (False, True))

        assert_same(untiled, tiled)
        if out == torch.bfloat16:
            torch.testing.assert_close(
                tiled.data[case.checked()].double(), case.expected(), rtol=2e-2, atol=2e-2
            )
