"""Matmuls: exact rows first, then numbers against fp64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specmon.kernels.dequantise.reference import dequantise_q4_1
from specmon.kernels.linear import DenseLinear, Int4Linear, Int8Head, Int8Linear, Linear

SHAPES = [(960, 576), (576, 1536), (17, 64), (40, 96)]  # (N, K), two of the embedded model and two odd ones


def q4_1_blocks(out_features: int, in_features: int) -> Tensor:
    groups = in_features // 32
    scale = (torch.rand(out_features, groups, 1) * 0.02 + 0.001).half()
    minimum = (-8 * scale.float() + torch.randn_like(scale.float()) * 0.01).half()
    codes = torch.randint(0, 256, (out_features, groups, 16), dtype=torch.uint8)
    return torch.cat((scale.view(torch.uint8), minimum.view(torch.uint8), codes), dim=-1).flatten(1)


def int8_weight(out_features: int, in_features: int) -> tuple[Tensor, Tensor]:
    weight = torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8)
    return weight, (torch.rand(out_features) * 0.001 + 0.0001).bfloat16()


def make(kind: str, shape: tuple[int, int], *, bias: bool = False) -> tuple[Linear, Tensor]:
    """A linear of one kind, and its weight in fp64 with the bias as a last column."""
    vector = torch.randn(shape[0]).bfloat16().float() if bias else None
    if kind == "int4":
        blocks = q4_1_blocks(*shape)
        linear: Linear = Int4Linear.from_q4_1(blocks, bias=vector)
        weight = dequantise_q4_1(blocks).double()
    elif kind == "int8":
        codes, scale = int8_weight(*shape)
        linear, weight = Int8Linear(codes, scale, vector), codes.double() * scale.double()[:, None]
    else:
        dense = torch.randn(shape).to(getattr(torch, kind))
        linear, weight = DenseLinear(dense, vector), dense.double()
    column = torch.zeros(shape[0]) if vector is None else vector
    return linear, torch.cat((weight, column.double()[:, None]), dim=1)


def exact(x: Tensor, weight: Tensor) -> Tensor:
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    return torch.cat((x.double(), ones), dim=1) @ weight.t()


KINDS = ["int4", "int8", "bfloat16", "float32"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_linear_row_has_the_same_bits_in_any_batch(
    kind: str, shape: tuple[int, int], threads: int, assert_rows_stand_alone: Callable[..., None]
) -> None:
    linear, _ = make(kind, shape, bias=shape == SHAPES[0])
    assert_rows_stand_alone(linear, torch.randn(shape[1]).to(linear.dtype))


@pytest.mark.parametrize("shape", [(960, 576), (576, 1536), (64, 4864)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_linear_row_has_the_same_bits_where_they_are_rounding_alone(
    kind: str, shape: tuple[int, int], threads: int, assert_rows_stand_alone: Callable[..., None]
) -> None:
    """Sums that are zero but for rounding: another order gives other bits nearly everywhere, not in one of thousands."""
    linear, row = cancelling(kind, shape)
    assert float((linear(row[None]) != 0).float().mean()) > 0.2
    assert_rows_stand_alone(linear, row)


def cancelling(kind: str, shape: tuple[int, int]) -> tuple[Linear, Tensor]:
    """A linear whose row takes inputs in pairs of opposite products, their places drawn."""
    n, k = shape
    order = torch.randperm(k)
    half = torch.randn(n, k // 2)
    row = torch.randn(k // 2).repeat(2)[order].bfloat16()
    if kind == "int4":
        codes = torch.randint(1, 16, (n, k // 2), dtype=torch.int32)
        scale = torch.full((n, k // 32), 0.01).bfloat16().float()
        return Int4Linear(torch.cat([codes, 16 - codes], dim=1)[:, order], scale, -8 * scale), row
    if kind == "int8":
        codes = torch.randint(-127, 128, (n, k // 2), dtype=torch.int8)
        return Int8Linear(torch.cat([codes, -codes], dim=1)[:, order], torch.full((n,), 0.01)), row
    dtype = getattr(torch, kind)
    return DenseLinear(torch.cat([half, -half], dim=1)[:, order].to(dtype)), row.to(dtype)


def test_int8_head_row_has_the_same_bits_in_any_batch(
    threads: int, assert_rows_stand_alone: Callable[..., None]
) -> None:
    assert_rows_stand_alone(Int8Head(*int8_weight(3001, 96)), torch.randn(96))


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("kind", "tolerance"), [("int4", 1e-2), ("int8", 6e-3), ("bfloat16", 6e-3), ("float32", 2e-6)]
)
@pytest.mark.parametrize("rows", [1, 5, 16, 37])
def test_linear_matches_fp64(
    kind: str, tolerance: float, shape: tuple[int, int], rows: int, bias: bool
) -> None:
    linear, weight = make(kind, shape, bias=bias)
    x = torch.randn(rows, shape[1]).to(linear.dtype)
    y = linear(x)
    reference = exact(x, weight)
    assert y.shape == (rows, shape[0])
    assert y.dtype == linear.dtype
    assert (linear.out_features, linear.in_features) == shape
    assert float((y - reference).abs().max()) <= tolerance * float(reference.abs().max())


def test_dense_runs_more_rows_than_it_needs_in_one_library_call() -> None:
    weight = torch.randn(24, 32)
    linear = DenseLinear(weight, rows=4)
    x = torch.randn(37, 32)

    assert torch.equal(linear(x), torch.nn.functional.linear(x, weight))


def test_dense_calls_with_no_fewer_rows_than_chosen() -> None:
    linear = DenseLinear(torch.randn(24, 32).bfloat16(), rows=4)
    x = torch.randn(3, 32).bfloat16()
    assert torch.equal(linear(x), torch.cat([linear(row[None]) for row in x]))


def test_linear_rounds_fp32_activations_as_a_cast_would() -> None:
    linear, _ = make("int4", (32, 64))
    x = torch.randn(3, 64)
    assert torch.equal(linear(x), linear(x.bfloat16()))


def test_int4_stacks_matrices_in_order() -> None:
    first, second = q4_1_blocks(48, 64), q4_1_blocks(16, 64)
    x = torch.randn(2, 64).bfloat16()
    stacked = Int4Linear.from_q4_1(first, second)(x)
    apart = torch.cat((Int4Linear.from_q4_1(first)(x), Int4Linear.from_q4_1(second)(x)), dim=1)
    assert torch.equal(stacked, apart)


def test_int4_counts_half_a_byte_a_weight_and_four_bytes_a_group() -> None:
    assert Int4Linear.from_q4_1(q4_1_blocks(64, 96)).weight_bytes == 64 * 96 // 2 + 64 * 3 * 4


def test_int8_counts_its_weight_and_scales() -> None:
    assert Int8Linear(*int8_weight(40, 96)).weight_bytes == 40 * 96 + 40 * 2


def test_dense_counts_its_weight_and_bias() -> None:
    assert DenseLinear(torch.zeros(40, 96), torch.zeros(40)).weight_bytes == 4 * (40 * 96 + 40)


def test_int8_head_ranks_tokens_that_bf16_cannot_tell_apart() -> None:
    weight = torch.zeros(64, 32, dtype=torch.int8)
    weight[5], weight[9] = 100, 100
    weight[9, 0] = 101  # 20.02 against 20.00: one bf16 value
    head = Int8Head(weight, torch.full((64,), 0.00625))
    logits = head(torch.ones(1, 32))
    assert int(logits.argmax()) == 9
    assert float(logits[0, 9] - logits[0, 5]) == pytest.approx(0.00625, rel=0.01)


@pytest.mark.parametrize(
    "build",
    [
        lambda: DenseLinear(torch.zeros(4)),
        lambda: DenseLinear(torch.zeros(4, 4, dtype=torch.float16)),
        lambda: DenseLinear(torch.zeros(4, 4), torch.zeros(3)),
        lambda: DenseLinear(torch.zeros(4, 4), rows=0),
        lambda: Int8Linear(torch.zeros(4, 4), torch.ones(4)),
        lambda: Int8Linear(torch.zeros(4, 4, dtype=torch.int8), torch.ones(3)),
        lambda: Int4Linear.from_q4_1(torch.zeros(4, 19, dtype=torch.uint8)),
        lambda: Int4Linear(torch.zeros(4, 48, dtype=torch.int32), torch.ones(4, 1), torch.ones(4, 1)),
    ],
)
def test_linear_refuses_weights_that_do_not_fit(build: Callable[[], Linear]) -> None:
    with pytest.raises(ValueError):
        build()


def test_int4_names_the_device_it_cannot_run_on() -> None:
    with pytest.raises(ValueError, match="CPU only, not on meta"):
        Int4Linear(
            torch.zeros(16, 32, dtype=torch.int32, device="meta"), torch.ones(16, 1), torch.ones(16, 1)
        )
