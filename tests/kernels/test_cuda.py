"""The same promises on a CUDA device: a row's bits stand alone, numbers match fp64."""

from collections.abc import Callable

import pytest
import torch

from specmon.kernels.attention.reference import attend_rows
from specmon.kernels.linear import DenseLinear, Int4Linear, Int8Head, Int8Linear
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.frequencies import inverse_frequencies
from specmon.kernels.rope.reference import RopeTable, apply_rope
from specmon.kernels.swiglu.reference import swiglu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
Check = Callable[..., None]
DTYPES = [torch.bfloat16, torch.float32]


@pytest.mark.parametrize("shape", [(960, 576), (4608, 3584), (17, 64)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dense_row_has_the_same_bits_in_any_batch_on_cuda(
    shape: tuple[int, int], dtype: torch.dtype, assert_rows_stand_alone: Check
) -> None:
    linear = DenseLinear(torch.randn(shape).to("cuda", dtype), torch.randn(shape[0]).to("cuda", dtype))
    assert_rows_stand_alone(lambda x: linear(x.cuda()), torch.randn(shape[1]).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", [1, 63, 700, 4096])
@pytest.mark.parametrize("heads", [(9, 3, 64), (28, 4, 128), (4, 4, 64)], ids=str)
def test_attention_row_has_the_same_bits_in_any_batch_on_cuda(
    heads: tuple[int, int, int], length: int, dtype: torch.dtype, assert_rows_stand_alone: Check
) -> None:
    k, v = (torch.randn(heads[1], 4100, heads[2]).to("cuda", dtype).transpose(0, 1) for _ in range(2))
    assert_rows_stand_alone(
        lambda q: attend_rows(q.cuda(), k, v, [length] * len(q)), torch.randn(heads[0], heads[2]).to(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [33, 576, 3584])
def test_norm_and_gate_rows_have_the_same_bits_in_any_batch_on_cuda(
    width: int, dtype: torch.dtype, assert_rows_stand_alone: Check
) -> None:
    weight = torch.randn(width).cuda()
    assert_rows_stand_alone(lambda x: rmsnorm(x.cuda(), weight, 1e-5), torch.randn(width).to(dtype))
    assert_rows_stand_alone(lambda x: swiglu(x.cuda()), torch.randn(2 * width).to(dtype))


def test_rope_on_cuda_matches_the_cpu() -> None:
    inverse, _ = inverse_frequencies(64, 1e5)
    x = torch.randn(5, 12, 64)
    on_cpu = apply_rope(x, *RopeTable(inverse, 32).rows(slice(7, 12)))
    on_cuda = apply_rope(x.cuda(), *RopeTable(inverse.cuda(), 32).rows(slice(7, 12)))
    torch.testing.assert_close(on_cuda.cpu(), on_cpu, rtol=1e-6, atol=1e-6)


def test_int8_widens_its_weight_on_cuda() -> None:
    codes, scale = torch.randint(-127, 128, (40, 96), dtype=torch.int8), torch.rand(40).bfloat16() * 0.001
    x = torch.randn(3, 96).bfloat16()
    expected = (x.double() @ codes.double().t()) * scale.double()
    for kind in (Int8Linear, Int8Head):
        found = kind(codes.cuda(), scale.cuda())(x.cuda()).double().cpu()
        assert float((found - expected).abs().max()) <= 1e-2 * float(expected.abs().max())


def test_int4_refuses_cuda() -> None:
    with pytest.raises(ValueError, match="CPU only, not on cuda"):
        Int4Linear(torch.zeros(16, 32, dtype=torch.int32).cuda(), torch.ones(16, 1), torch.ones(16, 1))
