"""Attention of sequences that stand apart, against its reference: groups of heads, tiles not filled, nothing before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.kernels.attention import reference
from specmon.kernels.attention.apart import attend_apart

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
FP32, BF16 = torch.float32, torch.bfloat16
N_ROWS, N_SLOTS = 5, 80


def rand(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


@pytest.mark.parametrize("dtype", [FP32, pytest.param(BF16, marks=ON_GPU)], ids=str)
@pytest.mark.parametrize(("n_heads", "n_kv_heads", "head_dim"), [(4, 4, 16), (6, 2, 32), (7, 1, 16)])
@pytest.mark.parametrize("position", [0, 1, 31, 32, 70, 79])
def test_each_row_attends_to_its_own_conversation(
    n_heads: int, n_kv_heads: int, head_dim: int, position: int, dtype: torch.dtype
) -> None:
    """Conversations begin at the first slot, later, with this token, and with the next one."""
    torch.manual_seed(position)
    q = rand(N_ROWS, n_heads, head_dim, dtype=dtype)
    new_k, new_v = (rand(N_ROWS, n_kv_heads, head_dim, dtype=dtype) for _ in "kv")
    keys, values = (rand(N_ROWS, n_kv_heads, N_SLOTS, head_dim, dtype=dtype) for _ in "kv")
    keys[:, :, position:], values[:, :, position:] = torch.nan, torch.nan  # not written yet
    starts = torch.tensor([0, min(3, position), position // 2, position, position + 1], device=DEVICE)
    at = torch.tensor([position], device=DEVICE)
    wanted_keys, wanted_values = keys.nan_to_num(), values.nan_to_num()
    wanted = reference.attend_apart(q, new_k, new_v, wanted_keys, wanted_values, starts, at)

    found = attend_apart(q, new_k, new_v, keys, values, starts, at)

    tolerance = 1e-5 if dtype == FP32 else 2e-2
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    assert torch.equal(keys[:, :, : position + 1], wanted_keys[:, :, : position + 1])
    assert torch.equal(values[:, :, : position + 1], wanted_values[:, :, : position + 1])


def test_head_size_that_is_no_power_of_two_is_refused() -> None:
    q, new, cache = (torch.zeros(1, 1, *shape, device=DEVICE) for shape in ((48,), (48,), (4, 48)))
    start, position = torch.zeros(2, 1, dtype=torch.int64, device=DEVICE)

    with pytest.raises(ValueError, match="48 is no power of 2"):
        attend_apart(q, new, new, cache, cache, start, position)
