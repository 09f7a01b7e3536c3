"""Norm, rotary embedding and gate: exact rows, and numbers against fp64."""

from collections.abc import Callable

import pytest
import torch

from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.frequencies import inverse_frequencies
from specmon.kernels.rope.reference import RopeTable, apply_rope
from specmon.kernels.swiglu.reference import swiglu

Check = Callable[..., None]
WIDTHS = [1, 33, 64, 576, 2900]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rmsnorm_row_has_the_same_bits_in_any_batch(
    width: int, dtype: torch.dtype, threads: int, assert_rows_stand_alone: Check
) -> None:
    weight = torch.randn(width)
    assert_rows_stand_alone(lambda x: rmsnorm(x, weight, 1e-5), torch.randn(width).to(dtype))


@pytest.mark.parametrize("heads", [1, 3, 9])
def test_rmsnorm_of_heads_has_the_same_bits_in_any_batch(
    heads: int, threads: int, assert_rows_stand_alone: Check
) -> None:
    weight = torch.randn(64)
    assert_rows_stand_alone(lambda x: rmsnorm(x, weight, 1e-6), torch.randn(heads, 64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rmsnorm_matches_fp64(dtype: torch.dtype) -> None:
    x, weight = torch.randn(5, 576).to(dtype) * 30, torch.randn(576)
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    found = rmsnorm(x, weight, 1e-5)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=2e-6)


def test_rmsnorm_of_zeros_is_zero() -> None:
    assert torch.equal(rmsnorm(torch.zeros(2, 8), torch.ones(8), 1e-5), torch.zeros(2, 8))


@pytest.mark.parametrize("width", [*WIDTHS, 1536, 3000, 11001, 18944])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_swiglu_row_has_the_same_bits_in_any_batch(
    width: int, dtype: torch.dtype, threads: int, assert_rows_stand_alone: Check
) -> None:
    assert_rows_stand_alone(swiglu, torch.randn(2 * width).to(dtype))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_swiglu_matches_fp64(dtype: torch.dtype, tolerance: float, rows: int) -> None:
    x = torch.randn(rows, 2 * 1536).to(dtype) * 3
    gate, up = x.double().chunk(2, dim=-1)
    found = swiglu(x)
    assert found.dtype == dtype
    torch.testing.assert_close(
        found.double(), gate / (1 + (-gate).exp()) * up, rtol=tolerance, atol=tolerance
    )


def test_swiglu_leaves_its_input_alone() -> None:
    x = torch.randn(3, 128)
    before = x.clone()
    swiglu(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("heads", [1, 5, 12])
@pytest.mark.parametrize("head_dim", [6, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rope_row_has_the_same_bits_in_any_batch(
    heads: int, head_dim: int, dtype: torch.dtype, threads: int, assert_rows_stand_alone: Check
) -> None:
    table = RopeTable(inverse_frequencies(head_dim, 1e4)[0], 32)
    cos, sin = table.cos[7:8], table.sin[7:8]

    def rotate(x: torch.Tensor) -> torch.Tensor:
        return apply_rope(x, cos.expand(len(x), -1, -1).contiguous(), sin.expand(len(x), -1, -1).contiguous())

    assert_rows_stand_alone(rotate, torch.randn(heads, head_dim).to(dtype))


def test_rope_turns_each_pair_by_its_angle() -> None:
    inverse, _ = inverse_frequencies(8, 1e4)
    table = RopeTable(inverse, 100)
    x = torch.randn(3, 2, 8)
    positions = torch.tensor([0, 41, 99])
    pairs = torch.complex(x[..., :4].double(), x[..., 4:].double())
    angle = positions[:, None].double() * inverse.double()
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[:, None]
    expected = torch.cat((turned.real, turned.imag), dim=-1)
    torch.testing.assert_close(apply_rope(x, *table.rows(positions)).double(), expected, rtol=1e-6, atol=1e-6)


def test_rope_at_position_zero_changes_nothing() -> None:
    table = RopeTable(inverse_frequencies(64, 1e5)[0], 4)
    x = torch.randn(1, 3, 64)
    assert torch.equal(apply_rope(x, *table.rows(slice(0, 1))), x)


def test_rope_table_gives_a_slice_and_an_index_the_same_rows() -> None:
    table = RopeTable(inverse_frequencies(64, 1e5)[0], 20, scale=1.25)
    for by_slice, by_index in zip(table.rows(slice(3, 7)), table.rows(torch.arange(3, 7)), strict=True):
        assert torch.equal(by_slice, by_index)
    assert float(table.cos[0, 0, 0]) == 1.25
    assert len(table) == 20


def test_rope_leaves_its_input_alone() -> None:
    table = RopeTable(inverse_frequencies(8, 1e4)[0], 4)
    x = torch.randn(2, 3, 8)
    before = x.clone()
    apply_rope(x, *table.rows(slice(1, 3)))
    assert torch.equal(x, before)
