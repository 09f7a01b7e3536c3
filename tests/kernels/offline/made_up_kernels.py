"""Kernels that are wrong in one way each, launched as ours are; imported by the compiling process."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

META = torch.device("meta")


@triton.jit
def product_kernel(
    w_ptr, x_ptr, out_ptr, K: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
    LEFT: tl.constexpr,
):  # fmt: skip
    """x Wᵀ of 16 rows, with W as the left operand or the right one."""
    rn, rr, rk = tl.arange(0, BN), tl.arange(0, 16), tl.arange(0, BK)
    acc = tl.zeros((BN, 16), tl.float32)
    other = tl.zeros((16, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        w = tl.load(w_ptr + rn[:, None] * K + k + rk[None, :])
        x = tl.load(x_ptr + rr[:, None] * K + k + rk[None, :])
        if LEFT:
            acc = tl.dot(w, x.T, acc)
        else:
            other = tl.dot(x, w.T, other)
    if not LEFT:
        acc = other.T
    tl.store(out_ptr + rr[None, :] * BN + rn[:, None], acc)


@triton.jit
def sum_kernel(x_ptr, out_ptr, N: tl.constexpr):
    """Holds N numbers across two reductions: too many for few registers."""
    x = tl.load(x_ptr + tl.arange(0, N))
    x = x * tl.sum(x)
    tl.store(out_ptr + tl.arange(0, N), x * tl.max(x))


def product(dtype: torch.dtype, *, left: bool, bn: int = 64, bk: int = 128, stages: int = 3) -> None:
    w, x = torch.empty(bn, 1024, dtype=dtype, device=META), torch.empty(16, 1024, dtype=dtype, device=META)
    out = torch.empty(16, bn, device=META)
    product_kernel[(1,)](w, x, out, K=1024, BN=bn, BK=bk, STAGES=stages, LEFT=left)


def fp8_left() -> None:
    product(torch.float8_e4m3fn, left=True)


def fp8_right() -> None:
    product(torch.float8_e4m3fn, left=False)


def bf16() -> None:
    product(torch.bfloat16, left=True)


def too_much_shared() -> None:
    product(torch.bfloat16, left=True, bn=128, bk=512, stages=4)


def spilling() -> None:
    sum_kernel[(1,)](torch.empty(4096, device=META), torch.empty(4096, device=META), N=4096, maxnreg=32)


def refused() -> None:
    """Rows of a product must be 16 or more."""
    product(torch.bfloat16, left=True, bk=8)
