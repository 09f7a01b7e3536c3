"""Matmuls whose rows several devices share."""

from __future__ import annotations

import pytest
import torch

from specmon.kernels.linear import DenseLinear, ShardedLinear, bytes_by_device, row_shares

CPU = torch.device("cpu")


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
@pytest.mark.parametrize("n_out", [7, 48, 101])
def test_outputs_are_those_of_one_device(n_out: int, n_parts: int) -> None:
    weight, bias, x = torch.randn(n_out, 64), torch.randn(n_out), torch.randn(5, 64)
    parts = [DenseLinear(weight[rows], bias[rows]) for rows in row_shares(n_out, n_parts)]

    found = ShardedLinear(parts, [CPU] * n_parts)

    torch.testing.assert_close(found(x), DenseLinear(weight, bias)(x), rtol=1e-5, atol=1e-5)
    assert (found.out_features, found.in_features, found.dtype) == (n_out, 64, torch.float32)
    assert found.weight_bytes == DenseLinear(weight, bias).weight_bytes


def test_a_row_has_the_same_bits_however_many_travel_with_it() -> None:
    weight, x = torch.randn(96, 64), torch.randn(16, 64)
    found = ShardedLinear([DenseLinear(weight[rows]) for rows in row_shares(96, 2)], [CPU] * 2)

    whole = found(x)

    for n_rows in range(1, 17):
        assert torch.equal(found(x[:n_rows]), whole[:n_rows])


def test_bytes_are_told_by_device_and_what_is_whole_is_on_the_first() -> None:
    shared = ShardedLinear([DenseLinear(torch.randn(8, 4)), DenseLinear(torch.randn(8, 4))], [CPU] * 2)

    assert bytes_by_device([shared, DenseLinear(torch.randn(3, 4))], 2) == (8 * 16 + 3 * 16, 8 * 16)
