"""Launches of an EAGLE-3 head's own kernels. Nothing here allocates or synchronises."""

from __future__ import annotations

from torch import Tensor

from specmon.kernels.eagle3.pair import collect_kernel, pair_kernel
from specmon.kernels.stream.launch import Normed, launch_options
from specmon.kernels.stream.schedule import cdiv, pair_group

_BLOCK = 128


def collect(address: Tensor, out: Tensor, n_rows: int) -> None:
    """Fetch features from where they lie; rows from `n_rows` on become zeros.

    Shapes: address [1] int64, where `n_rows` contiguous fp32 rows of F begin, on `out`'s device; out [16, F].
    """
    width = out.shape[1]
    collect_kernel[(cdiv(width, _BLOCK),)](
        address, out, n_rows, F=width, BLOCK=_BLOCK, **launch_options(out.device)
    )


def pair(
    tokens: Tensor,
    table: Tensor,
    token_norm: Tensor,
    features: Tensor,
    feature_norm: Tensor,
    residual: Tensor,
    out: Normed,
    n_rows: int,
    eps: float,
    *,
    normed_residual: bool = False,
) -> None:
    """Start a pass of the head: its input, and the features as the residual stream, normed or as they are.

    Shapes: tokens [16] int64; table [V, D]; norms [D] fp32; features, residual [n_rows, D] or longer; out.h [16, 2D] with
    groups of `pair_group(D)`.
    """
    width, group = table.shape[1], pair_group(table.shape[1])
    groups = 1 << (cdiv(width, group) - 1).bit_length()
    pair_kernel[(n_rows, 2)](
        tokens, table, token_norm, features, feature_norm, residual, out.h.data, out.h.scale_or_any, eps,
        D=width, GROUP=group, GROUPS=groups, NORMED=normed_residual, num_warps=8, **launch_options(out.h.data.device),
    )  # fmt: skip
