"""GGUF blocks against the gguf package; int8 rows against their bound."""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, dequantize, quantize
from torch import Tensor

from specmon.kernels.dequantise.reference import (
    dequantise_gguf,
    dequantise_q4_1,
    dequantise_q8_0,
    quantise_rows_int8,
    unpack_q4_1,
)


def stored(kind: GGMLQuantizationType, rows: int = 5, width: int = 96) -> Tensor:
    values = np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)
    return torch.from_numpy(quantize(values, kind))


def test_q4_1_equals_the_gguf_package() -> None:
    blocks = stored(GGMLQuantizationType.Q4_1)
    expected = torch.from_numpy(dequantize(blocks.numpy(), GGMLQuantizationType.Q4_1))
    assert torch.equal(dequantise_q4_1(blocks), expected)


def test_q8_0_equals_the_gguf_package() -> None:
    blocks = stored(GGMLQuantizationType.Q8_0)
    expected = torch.from_numpy(dequantize(blocks.numpy(), GGMLQuantizationType.Q8_0))
    assert torch.equal(dequantise_q8_0(blocks), expected)


def test_q4_1_block_layout_is_low_nibbles_first() -> None:
    header = torch.tensor([0.5, -1.0]).half().view(torch.uint8)
    codes = torch.arange(16, dtype=torch.uint8) | (15 - torch.arange(16, dtype=torch.uint8)) << 4
    unpacked, scale, minimum = unpack_q4_1(torch.cat((header, codes))[None])
    assert unpacked[0].tolist() == [*range(16), *reversed(range(16))]
    assert (float(scale), float(minimum)) == (0.5, -1.0)


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "Q5_0", "Q4_0"])
def test_any_gguf_type_reads_as_the_gguf_package_does(name: str) -> None:
    kind = GGMLQuantizationType[name]
    blocks = stored(kind)
    assert torch.equal(dequantise_gguf(int(kind), blocks), torch.from_numpy(dequantize(blocks.numpy(), kind)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_gguf_floats_read_as_they_are(dtype: torch.dtype) -> None:
    kind = GGMLQuantizationType.F32 if dtype == torch.float32 else GGMLQuantizationType.F16
    values = torch.randn(3, 40).to(dtype)
    assert torch.equal(dequantise_gguf(int(kind), values), values.float())


def test_gguf_type_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="I64"):
        dequantise_gguf(int(GGMLQuantizationType.I64), torch.zeros(1, 8, dtype=torch.int64))


@pytest.mark.parametrize(
    "blocks", [torch.zeros(2, 21, dtype=torch.uint8), torch.zeros(2, 20), torch.zeros(20)]
)
def test_q4_1_refuses_what_is_no_whole_number_of_blocks(blocks: Tensor) -> None:
    with pytest.raises(ValueError, match="Q4_1"):
        dequantise_q4_1(blocks)


def test_int8_rows_are_within_half_a_step() -> None:
    weight = torch.randn(200, 96) * torch.logspace(-4, 4, 200)[:, None]
    codes, scale = quantise_rows_int8(weight)
    assert (codes.dtype, scale.dtype) == (torch.int8, torch.bfloat16)
    error = (codes.float() * scale.float()[:, None] - weight).abs()
    assert bool((error <= scale.float()[:, None] * 0.5001).all())


def test_int8_rows_of_zeros_stay_zero() -> None:
    codes, scale = quantise_rows_int8(torch.zeros(3, 8))
    assert not codes.any()
    assert bool((scale > 0).all())
