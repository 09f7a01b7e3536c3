"""Programmatic dependent launch: a kernel starts while the one before it drains, and waits only before it reads its result.

What a program can do meanwhile is ask for its first weights. `PDL` is False off NVIDIA GPUs and in the
interpreter. Source: CUDA programming guide, "Programmatic Dependent Launch"; PTX `griddepcontrol`, `prefetch`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait, globaltimer


@triton.jit
def prefetch_lines(at):
    """Ask for the cache lines of 128 bytes that the pointers `at` lie in."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [at.to(tl.uint64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def prefetch_rows(
    w_ptr, first, k_first, K: tl.constexpr, KS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, AHEAD: tl.constexpr
):  # fmt: skip
    """Ask for BN weight rows from `first`, inputs k_first … : all KS of them where AHEAD, else one tile."""
    WIDTH: tl.constexpr = w_ptr.dtype.element_ty.primitive_bitwidth // 8
    LINE: tl.constexpr = 128 // WIDTH
    REACH: tl.constexpr = KS if AHEAD else BK
    rn = first + tl.arange(0, BN)
    LINES: tl.constexpr = BK // LINE if BK > LINE else 1
    for k in tl.static_range(0, REACH, BK):
        rl = tl.minimum(k_first + k + tl.arange(0, LINES) * LINE, K - 1)
        prefetch_lines(w_ptr + rn[:, None].to(tl.int64) * K + rl[None, :])


@triton.jit
def let_next_start(PDL: tl.constexpr):
    """Allow the next kernel's programs to start as soon as there is room for them.

    Called when a program's loads are done: earlier, the waiting programs of many kernels would crowd those that work.
    """
    if PDL:
        gdc_launch_dependents()


@triton.jit
def await_previous(PDL: tl.constexpr):
    """Wait until all kernels before this one are done and what they wrote can be read."""
    if PDL:
        gdc_wait()


@triton.jit
def stamp(at_ptr, STAMP: tl.constexpr):
    """Leave the device's time (ns) in at[0], where the device has one."""
    if STAMP:
        tl.store(at_ptr, globaltimer())
