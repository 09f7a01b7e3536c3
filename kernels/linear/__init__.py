"""Matmuls against fixed weights: every kind gives a row the same bits however many rows travel with it."""

from specmon.kernels.linear.base import Linear
from specmon.kernels.linear.dense import DenseLinear
from specmon.kernels.linear.fp8 import Fp8Linear
from specmon.kernels.linear.head import Int8Head
from specmon.kernels.linear.int4 import Int4Linear
from specmon.kernels.linear.int8 import Int8Linear
from specmon.kernels.linear.pages import into_huge_pages
from specmon.kernels.linear.sharded import ShardedLinear, bytes_by_device, row_shares

__all__ = [
    "DenseLinear",
    "Fp8Linear",
    "Int4Linear",
    "Int8Head",
    "Int8Linear",
    "Linear",
    "ShardedLinear",
    "bytes_by_device",
    "into_huge_pages",
    "row_shares",
]
