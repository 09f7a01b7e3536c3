"""Rows that share a prefix and go their own ways: each has the bits it would have alone on a main line."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.kernels.attention.reference import attend_branches
from specmon.kernels.attention.split import CHUNK, TILED, UNTILED, Branched, Merge, SplitAttention
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SPREAD = 4  # prefixes differ by up to so much, as accepted_len does
gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Case:
    """Rows after prefixes of `base` and more keys, each at its own position `step`; K and V lie differently.

    Every slot that no row may see is NaN.
    """

    def __init__(
        self,
        heads: tuple[int, int, int],
        base: int,
        step: int,
        n_rows: int,
        dtype: torch.dtype,
        chunk: int = CHUNK,
    ) -> None:
        self.heads, self.n_rows, self.step, self.chunk = heads, n_rows, step, chunk
        n_heads, n_kv_heads, head_dim = heads
        self.prefixes = [base + (3 * row + 1) % (SPREAD + 1) for row in range(n_rows)]
        steps, end = step + 2, base + SPREAD + 1  # a step more than has been filled
        self.n_slots = end + n_rows * steps
        order = torch.randperm(self.n_slots - end)
        own = (end + order).view(n_rows, steps)
        self.own = own[:, : step + 1].tolist()
        self.q = (3 * torch.randn(ROWS, n_heads, head_dim, device=DEVICE)).to(dtype)
        self.keys = torch.randn(n_kv_heads, self.n_slots, head_dim, device=DEVICE).to(dtype).transpose(0, 1)
        self.values = torch.randn(self.n_slots, n_kv_heads, head_dim, device=DEVICE).to(dtype)
        seen = torch.zeros(self.n_slots, dtype=torch.bool)
        seen[: max(self.prefixes)] = True
        seen[own[:, : step + 1].flatten()] = True
        self.keys[~seen.to(DEVICE)] = torch.nan
        self.values[~seen.to(DEVICE)] = torch.nan
        table = torch.full((steps, ROWS), 2**30, dtype=torch.int32)
        table[:, :n_rows] = own.T
        first = torch.full((ROWS,), 2**30, dtype=torch.int32)
        first[:n_rows] = torch.tensor(self.prefixes)
        table, first = table.to(DEVICE), first.to(DEVICE)
        self.at = Branched(positions=first + step, slots=table[step], prefixes=first, own=table)

    def attention(self) -> SplitAttention:
        """What it holds from other passes is NaN."""
        attention = SplitAttention(*self.heads, self.n_slots, DEVICE, chunk=self.chunk)
        for scratch in (attention.part, attention.peak, attention.mass):
            scratch.fill_(torch.nan)
        return attention

    def empty(self, dtype: torch.dtype) -> Scaled:
        return empty_rows(self.heads[::2], self.heads[2], dtype, DEVICE)

    def run(
        self, dtype: torch.dtype, merge: Merge = UNTILED, attention: SplitAttention | None = None
    ) -> Scaled:
        out = self.empty(dtype)
        attend = (attention or self.attention()).branches
        attend(self.q, self.keys, self.values, self.at, out, self.n_rows, merge)
        return out

    def on_the_main_line(self, row: int, dtype: torch.dtype) -> Scaled:
        """One row alone, through the kernel of ordinary rows, its keys copied to where the main line has them."""
        prefix, own, keys, values = self.prefixes[row], self.own[row], self.keys.clone(), self.values.clone()
        end = prefix + len(own)
        for cache in (keys, values):
            mine = cache[own].clone()
            cache[prefix:] = torch.nan
            cache[prefix:end] = mine
        out, q = self.empty(dtype), torch.zeros_like(self.q)
        q[0] = self.q[row]
        cursor = torch.tensor([end - 1], dtype=torch.int32, device=DEVICE)
        self.attention()(q, keys, values, cursor, out, 1)
        return out

    def assert_main_lines_bits(self, found: Scaled, dtype: torch.dtype) -> None:
        for row in range(self.n_rows):
            want = self.on_the_main_line(row, dtype)
            assert same(found.data[row], want.data[0]), row
            if found.scale is not None:
                assert want.scale is not None
                assert torch.equal(found.scale[:, row], want.scale[:, 0])
        assert not found.data[self.n_rows :].float().any()

    def expected(self) -> Tensor:
        return attend_branches(self.q[: self.n_rows], self.keys, self.values, self.prefixes, self.own)


def same(a: Tensor, b: Tensor) -> bool:
    assert bool(torch.isfinite(b.float()).all())
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


@pytest.mark.parametrize(
    ("base", "step", "n_rows"), [(0, 0, 3), (3, 2, 16), (250, 3, 5), (255, 0, 2), (256, 1, 1), (510, 3, 7)]
)
@pytest.mark.parametrize("heads", [(2, 2, 16), (6, 2, 16), (7, 1, 32)], ids=str)
def test_branch_rows_have_the_bits_of_a_main_line(
    heads: tuple[int, int, int], base: int, step: int, n_rows: int
) -> None:
    case = Case(heads, base, step, n_rows, torch.float32)
    found = case.run(torch.float32)

    case.assert_main_lines_bits(found, torch.float32)
    torch.testing.assert_close(found.data[:n_rows], case.expected(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, FP8], ids=str)
@pytest.mark.parametrize(("base", "step"), [(2, 1), (15, 2), (200, 9)])
def test_both_merges_of_branches_give_the_same_bits(base: int, step: int, dtype: torch.dtype) -> None:
    case = Case((6, 2, 32), base, step, 7, torch.float32, chunk=16)
    untiled, tiled = (case.run(dtype, merge) for merge in (UNTILED, TILED))

    assert same(tiled.data, untiled.data)
    case.assert_main_lines_bits(untiled, dtype)


@pytest.mark.parametrize("merge", [UNTILED, TILED], ids=lambda merge: merge.name)
def test_branches_leave_scratch_ready_for_ordinary_rows(merge: Merge) -> None:
    case = Case((6, 2, 32), 40, 3, 7, torch.float32, chunk=16)
    attention = case.attention()
    keys, values = torch.randn(2, case.n_slots, 2, 32, device=DEVICE)
    cursor = torch.tensor([20], dtype=torch.int32, device=DEVICE)
    before, after = case.empty(torch.float32), case.empty(torch.float32)
    attention(case.q, keys, values, cursor, before, 5, merge)
    first = case.run(torch.float32, merge, attention)
    attention(case.q, keys, values, cursor, after, 5, merge)

    assert same(after.data, before.data)
    assert same(case.run(torch.float32, merge, attention).data, first.data)


@pytest.mark.parametrize("out", [torch.bfloat16, FP8], ids=str)
@pytest.mark.parametrize("n_rows", [1, 5, 16])
@pytest.mark.parametrize(("base", "step"), [(3, 2), (252, 4), (255, 0), (700, 3), (5000, 9)])
@pytest.mark.parametrize("heads", [(28, 4, 128), (14, 2, 64), (9, 3, 64), (4, 4, 64)], ids=str)
class TestOnAGpu:
    pytestmark = gpu

    def test_branch_rows_have_the_bits_of_a_main_line(
        self, heads: tuple[int, int, int], base: int, step: int, n_rows: int, out: torch.dtype
    ) -> None:
        case = Case(heads, base, step, n_rows, torch.bfloat16)
        untiled, tiled = (case.run(out, merge) for merge in (UNTILED, TILED))

        assert same(tiled.data, untiled.data)
        case.assert_main_lines_bits(untiled, out)
        if out == torch.bfloat16:
            torch.testing.assert_close(
                untiled.data[:n_rows].float(), case.expected().float(), rtol=2e-2, atol=2e-2
            )
