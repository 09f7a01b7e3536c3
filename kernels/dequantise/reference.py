"""GGUF blocks to numbers.

Q4_1 (20 bytes, 32 weights): fp16 d, fp16 m, 16 bytes of codes; byte j holds code j low and code j + 16
high; w = d·code + m. Q8_0 (34 bytes, 32 weights): fp16 d, 32 int8 codes; w = d·code.

Source: ggml's quant block layout; formats other than these two go through the `gguf` package.
"""

from __future__ import annotations

import torch
from torch import Tensor

Q4_1_BYTES, Q8_0_BYTES, BLOCK = 20, 34, 32


def unpack_q4_1(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split Q4_1 rows into codes, scales and minima.

    Shapes: blocks [N, K/32·20] uint8 -> codes [N, K] int32 in 0..15, scale and minimum
        [N, K/32] fp32.
    Raises: ValueError if a row is not a whole number of blocks.
    """
    blocks_NGB = _split_blocks(blocks, Q4_1_BYTES, "Q4_1")
    bytes_NGB = blocks_NGB[..., 4:]
    codes = torch.cat((bytes_NGB & 15, bytes_NGB >> 4), dim=-1)
    return codes.flatten(1).to(torch.int32), *q4_1_scales(blocks)


def q4_1_scales(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Scales and minima of Q4_1 rows, [N, K/32] fp32 each. Shapes and errors: as `unpack_q4_1`."""
    blocks_NGB = _split_blocks(blocks, Q4_1_BYTES, "Q4_1")
    return _half(blocks_NGB, 0), _half(blocks_NGB, 2)


def dequantise_q4_1(blocks: Tensor) -> Tensor:
    """Q4_1 rows as fp32. Shapes: blocks [N, K/32·20] uint8 -> [N, K]."""
    codes, scale, minimum = unpack_q4_1(blocks)
    groups = codes.view(*scale.shape, BLOCK).float()
    return (groups * scale[..., None] + minimum[..., None]).flatten(1)


def dequantise_q8_0(blocks: Tensor) -> Tensor:
    """Q8_0 rows as fp32. Shapes: blocks [N, K/32·34] uint8 -> [N, K]."""
    blocks_NGB = _split_blocks(blocks, Q8_0_BYTES, "Q8_0")
    codes = blocks_NGB[..., 2:].contiguous().view(torch.int8).float()
    return (codes * _half(blocks_NGB, 0)[..., None]).flatten(1)


def quantise_rows_int8(weight_NK: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row to int8 with one scale.

    The scale is rounded to bf16 first (up, so that no code leaves ±127), because that is what the
    matmul multiplies by.
    Shapes: weight_NK [N, K] float -> int8 [N, K], scale [N] bf16; w ≈ scale·code.
    """
    weight_NK = weight_NK.float()
    exact_N = weight_NK.abs().amax(dim=1) / 127
    scale_N = exact_N.bfloat16()
    too_small = scale_N.float() < exact_N
    scale_N = torch.where(too_small, torch.nextafter(scale_N, torch.full_like(scale_N, torch.inf)), scale_N)
    scale_N = torch.where(exact_N == 0, torch.ones_like(scale_N), scale_N)
    codes_NK = (weight_NK / scale_N.float()[:, None]).round_().clamp_(-127, 127)
    return codes_NK.to(torch.int8), scale_N


def dequantise_gguf(tensor_type: int, data: Tensor) -> Tensor:
    """Rows of any GGUF type as fp32.

    Args:
        tensor_type: a `GGMLQuantizationType` value.
        data: the file's bytes [N, row bytes] uint8, or numbers for F32 and F16.
    Raises: ValueError for a type the gguf package cannot read.
    """
    from gguf import GGMLQuantizationType, dequantize

    kind = GGMLQuantizationType(tensor_type)
    if kind == GGMLQuantizationType.Q4_1:
        return dequantise_q4_1(data)
    if kind == GGMLQuantizationType.Q8_0:
        return dequantise_q8_0(data)
    try:
        return torch.from_numpy(dequantize(data.numpy(), kind)).float()
    except NotImplementedError as error:
        raise ValueError(f"GGUF tensors of type {kind.name} cannot be read") from error


def _split_blocks(blocks: Tensor, block_bytes: int, name: str) -> Tensor:
    if blocks.dim() != 2 or blocks.dtype != torch.uint8 or blocks.shape[1] % block_bytes:
        raise ValueError(
            f"{name} rows are uint8 [N, blocks × {block_bytes}], not {tuple(blocks.shape)} {blocks.dtype}"
        )
    return blocks.reshape(blocks.shape[0], -1, block_bytes)


def _half(blocks_NGB: Tensor, offset: int) -> Tensor:
    return blocks_NGB[..., offset : offset + 2].contiguous().view(torch.float16).squeeze(-1).float()
