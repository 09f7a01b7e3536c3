"""An EAGLE-3 head's input against its reference, at widths that fill no block, and row by row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.kernels.eagle3.launch import collect, pair
from specmon.kernels.eagle3.reference import collect as collected
from specmon.kernels.eagle3.reference import pair as reference
from specmon.kernels.quantise.reference import FP8, quantise_groups, widen_groups
from specmon.kernels.stream.launch import Normed, QkvMatmul
from specmon.kernels.stream.scaled import ROWS, Scaled
from specmon.kernels.stream.schedule import Schedule, pair_group
from specmon.kernels.stream.shapes import HeadShape

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-5
VOCABULARY = 50


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


class _Weights:
    def __init__(self, width: int) -> None:
        self.width, self.table = width, rand(VOCABULARY, width) * 0.1
        self.norms = rand(width), rand(width)

    def pair(
        self, tokens: Tensor, features: Tensor, dtype: torch.dtype = torch.float32
    ) -> tuple[Normed, Tensor]:
        """The head's input and its residual stream."""
        out = Normed(2 * self.width, pair_group(self.width), dtype, DEVICE)
        residual = torch.full((ROWS, self.width), torch.nan, device=DEVICE)
        n_rows = len(features)
        padded = torch.zeros(ROWS, dtype=torch.int64, device=DEVICE)
        padded[:n_rows] = tokens
        pair(padded, self.table, self.norms[0], features, self.norms[1], residual, out, n_rows, EPS)
        return out, residual

    def expected(self, tokens: Tensor, features: Tensor) -> Tensor:
        return reference(tokens, self.table, self.norms[0], features, self.norms[1], EPS)


def tokens_of(n_rows: int) -> Tensor:
    return torch.arange(n_rows, device=DEVICE) * 7 % VOCABULARY


@pytest.mark.parametrize("width", [64, 40, 576, 97])
@pytest.mark.parametrize("n_rows", [1, 5, 16])
def test_pair_norms_embedding_and_feature_apart(width: int, n_rows: int) -> None:
    weights, tokens, features = _Weights(width), tokens_of(n_rows), rand(n_rows, width) * 30
    out, residual = weights.pair(tokens, features)

    torch.testing.assert_close(out.h.data[:n_rows], weights.expected(tokens, features), rtol=1e-5, atol=1e-5)
    assert torch.equal(residual[:n_rows], features)
    assert bool(residual[n_rows:].isnan().all())
    assert not out.h.data[n_rows:].any()


@pytest.mark.parametrize("width", [64, 576, 896])
def test_pair_rounds_in_groups_of_one_half(width: int) -> None:
    weights, tokens, features = _Weights(width), tokens_of(3), rand(3, width) * 30
    out, _ = weights.pair(tokens, features, FP8)

    group, want = pair_group(width), weights.expected(tokens, features)
    assert width % group == 0
    assert out.h.scale is not None
    found = widen_groups(out.h.data[:3], out.h.scale[:, :3].T, group)
    rounded, scale = quantise_groups(want, group)
    torch.testing.assert_close(out.h.scale[:, :3].T, scale, rtol=1e-5, atol=0)
    within_a_step = (
        found - widen_groups(rounded, scale, group)
    ).abs() <= 0.13 * want.abs() + scale.max() / 64
    # The interpreter drops a carry when it rounds to e4m3, which halves a number now and then.
    assert float(within_a_step.float().mean()) > (0.95 if DEVICE.type == "cpu" else 0.999)


def test_rows_and_dtypes_of_a_pair_stand_alone() -> None:
    weights, tokens = _Weights(576), tokens_of(7)
    features = rand(7, 576).bfloat16()
    together, _ = weights.pair(tokens, features)
    widened, _ = weights.pair(tokens, features.float())
    assert torch.equal(together.h.data, widened.h.data)
    for row in range(7):
        alone, _ = weights.pair(tokens[row : row + 1], features[row : row + 1])
        assert torch.equal(alone.h.data[0], together.h.data[row])


@pytest.mark.parametrize("n_rows", [1, 3, 16])
@pytest.mark.parametrize("width", [192, 1700])
def test_features_are_fetched_from_wherever_they_lie(n_rows: int, width: int) -> None:
    out = torch.full((ROWS, width), torch.nan, device=DEVICE)
    address = torch.zeros(1, dtype=torch.int64, pin_memory=DEVICE.type == "cuda")
    everywhere = rand(40, width)
    for first in (0, 17):
        features = everywhere[first : first + n_rows]
        address[0] = features.data_ptr()
        collect(address, out, n_rows)
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()  # before the address changes

        assert torch.equal(out, collected(features, n_rows))


def test_qkv_takes_normed_rows_as_they_are() -> None:
    shape = HeadShape(n_heads=2, n_kv_heads=1, head_dim=16)
    entering, weight = Normed(96, 32, torch.float32, DEVICE), rand(64, 96) * 0.2
    entering.h.data[:3] = rand(3, 96) * 5
    qkv = QkvMatmul(Scaled(weight), None, None, shape, Schedule(bn=16, bk=32, split=3, stages=2), 0.0)
    q, k = torch.zeros(ROWS, 2, 16, device=DEVICE), torch.zeros(8, 1, 16, device=DEVICE)
    v, at = (
        torch.zeros(1, 8, 16, device=DEVICE).transpose(0, 1),
        torch.arange(ROWS, dtype=torch.int32, device=DEVICE),
    )
    turn = torch.ones(8, 8, device=DEVICE), torch.zeros(8, 8, device=DEVICE)  # by no angle
    qkv(entering, *turn, at, at, q, k, v, 3)

    found = torch.cat([q[:3].flatten(1), k[:3, 0], v[:3, 0]], dim=1)
    torch.testing.assert_close(found, entering.h.data[:3] @ weight.T, rtol=1e-5, atol=1e-5)
