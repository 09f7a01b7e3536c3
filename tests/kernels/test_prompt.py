"""The kernels of prompt chunks against their references, at shapes that fill no tile, some rows being padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.kernels.attention.prompt import Tiles, attend_prompt
from specmon.kernels.attention.reference import attend_prefill
from specmon.kernels.rmsnorm.prompt import add_and_norm, embed_and_norm
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.frequencies import inverse_frequencies
from specmon.kernels.rope.prompt import turn_and_append
from specmon.kernels.rope.reference import RopeTable, apply_rope
from specmon.kernels.stream.shapes import HeadShape
from specmon.kernels.swiglu.prompt import gate
from specmon.kernels.swiglu.reference import swiglu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
FP32 = torch.float32
DTYPES = pytest.mark.parametrize("dtype", [FP32, pytest.param(torch.bfloat16, marks=ON_GPU)], ids=str)
TOLERANCE = {FP32: 1e-4, torch.bfloat16: 2e-2}
EPS = 1e-5


def rand(*shape: int, dtype: torch.dtype = FP32) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def place(start: int, n_rows: int) -> Tensor:
    return torch.tensor([start, n_rows], dtype=torch.int32, device=DEVICE)


def close(found: Tensor, expected: Tensor, dtype: torch.dtype = FP32) -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance)


def cache(slots: int, kv_heads: int, head_dim: int, dtype: torch.dtype = FP32) -> tuple[Tensor, Tensor]:
    """K and V laid out differently: heads outermost, and part of a wider row of slots."""
    k = rand(kv_heads, slots, head_dim, dtype=dtype).transpose(0, 1)
    v = rand(slots, kv_heads, head_dim + 16, dtype=dtype)[:, :, :head_dim]
    return k, v


def reference(q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
    """The reference's attention in fp32 on the CPU."""
    return attend_prefill(q.float().cpu(), k.float().cpu(), v.float().cpu(), start).to(DEVICE)


# --- attention ---------------------------------------------------------------------------------------------------

HEADS = [(4, 4, 16), (6, 2, 32), (7, 1, 64)]  # (query heads, KV heads, head size): groups of 1, 3 and 7
PLACES = [(0, 1), (0, 37), (1, 1), (5, 64), (31, 33), (300, 3), (97, 70)]


@DTYPES
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize(("start", "n_rows"), PLACES)
def test_attention_matches_the_reference(
    heads: tuple[int, int, int], start: int, n_rows: int, dtype: torch.dtype
) -> None:
    n_heads, kv_heads, head_dim = heads
    k, v = cache(start + n_rows, kv_heads, head_dim, dtype)
    q = rand(n_rows + 9, n_heads, head_dim, dtype=dtype)

    found = attend_prompt(q, k, v, place(start, n_rows), dtype)[:n_rows]

    close(found, reference(q[:n_rows], k, v, start), dtype)


@pytest.mark.parametrize("tiles", [(16, 64), (64, 16), (32, 32)], ids=str)
def test_attention_does_not_depend_on_its_tiles(tiles: tuple[int, int]) -> None:
    rows, slots = tiles
    k, v = cache(150, 2, 16)
    q = rand(90, 6, 16)
    cut = Tiles(rows=rows, slots=slots, warps=4, stages=1)

    close(attend_prompt(q, k, v, place(60, 90), FP32, cut), reference(q, k, v, 60))


@DTYPES
def test_attention_reads_no_slot_past_its_rows(dtype: torch.dtype) -> None:
    k, v = cache(200, 2, 16, dtype)
    q = rand(64, 6, 16, dtype=dtype)
    clean = attend_prompt(q, k, v, place(75, 40), dtype)[:40]
    k[115:], v[115:], q[40:] = torch.nan, torch.nan, torch.nan

    assert torch.equal(attend_prompt(q, k, v, place(75, 40), dtype)[:40], clean)


@DTYPES
def test_attention_gives_a_row_the_same_bits_in_a_longer_buffer(dtype: torch.dtype) -> None:
    k, v = cache(128, 2, 16, dtype)
    q = rand(64, 6, 16, dtype=dtype)
    alone = attend_prompt(q[:40].contiguous(), k, v, place(9, 40), dtype)

    assert torch.equal(attend_prompt(q, k, v, place(9, 40), dtype)[:40], alone)


# --- what lies between two matmuls -------------------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize("width", [64, 80, 33])
def test_norm_follows_the_addition(width: int, dtype: torch.dtype) -> None:
    x, before, weight = rand(7, width, dtype=dtype), rand(7, width), rand(width)
    residual = before.clone()

    h = add_and_norm(x, residual, weight, EPS, place(0, 5), dtype)

    close(residual[:5], before[:5] + x[:5].float())
    assert torch.equal(residual[5:], before[5:])
    close(h[:5], rmsnorm(before[:5] + x[:5].float(), weight, EPS), dtype)
    assert h.dtype == dtype


@DTYPES
def test_the_stream_starts_with_the_embedding(dtype: torch.dtype) -> None:
    table, weight, residual = rand(50, 80, dtype=dtype), rand(80), rand(7, 80)
    ids = torch.tensor([3, 49, 0, 7, 7, 2, 1], device=DEVICE)

    h = embed_and_norm(ids, table, residual, weight, EPS, place(4, 6), dtype)

    assert torch.equal(residual[:6], table[ids[:6]].float())
    close(h[:6], rmsnorm(table[ids[:6]], weight, EPS), dtype)


@DTYPES
@pytest.mark.parametrize("width", [48, 130, 2100])
def test_gate_multiplies_up(width: int, dtype: torch.dtype) -> None:
    x = rand(5, 2 * width, dtype=dtype)

    found = gate(x, place(0, 4), dtype)

    assert found.dtype == dtype
    close(found[:4], swiglu(x[:4].float()), dtype)


@pytest.mark.filterwarnings("ignore:overflow")  # exp(10,000) is meant to be infinite
def test_a_gate_far_below_zero_shuts() -> None:
    x = torch.tensor([[-1e4, 1e4, 2.0, 3.0]], device=DEVICE)

    assert gate(x, place(0, 1), FP32).tolist() == [[0.0, 3e4]]


@DTYPES
@pytest.mark.parametrize("head_norms", [False, True])
@pytest.mark.parametrize(("start", "n_rows"), [(0, 5), (41, 33), (60, 40)])
def test_heads_are_normed_turned_and_appended(
    head_norms: bool, start: int, n_rows: int, dtype: torch.dtype
) -> None:
    shape, slots = HeadShape(n_heads=6, n_kv_heads=2, head_dim=16), 100
    k, v = cache(slots, 2, 16, dtype)
    before = k.clone(), v.clone()
    qkv = rand(64, 10 * 16, dtype=dtype)
    norms = (rand(16), rand(16)) if head_norms else None
    inverse, _ = inverse_frequencies(16, 10_000.0)
    table = RopeTable(inverse.to(DEVICE), slots)
    cos, sin = table.cos[:, 0, :8].contiguous(), table.sin[:, 0, 8:].contiguous()

    q = turn_and_append(qkv, norms, cos, sin, shape, k, v, place(start, n_rows), EPS)

    want_q, want_k, want_v = qkv[:n_rows].float().view(n_rows, 10, 16).split((6, 2, 2), dim=1)
    if norms is not None:
        want_q, want_k = rmsnorm(want_q, norms[0], EPS), rmsnorm(want_k, norms[1], EPS)
    rotation, end = table.rows(slice(start, start + n_rows)), start + n_rows
    close(q[:n_rows], apply_rope(want_q, *rotation), dtype)
    close(k[start:end], apply_rope(want_k, *rotation), dtype)
    assert torch.equal(v[start:end], want_v.to(dtype))
    for found, old in zip((k, v), before, strict=True):
        assert torch.equal(found[:start], old[:start])
        assert torch.equal(found[end:], old[end:])
