"""Streaming kernels in fp8 against the formulas on rounded numbers, and row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.kernels.attention.split import SplitAttention
from specmon.kernels.quantise.reference import FP8, quantise_channels, quantise_groups, widen_groups
from specmon.kernels.stream import reference
from specmon.kernels.stream.launch import HeadMatmul, ResidualMatmul, Stream, SwigluMatmul, embed
from specmon.kernels.stream.scaled import ROWS, Scaled, empty_rows
from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.winners import WORDS, Winners

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-5
GROUP = (
    128 if DEVICE.type == "cuda" else 32
)  # on a GPU as models have it: fewer rows take another instruction
WIDE, DEEP = 5 * GROUP // 2, 5 * GROUP


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


def weight(n: int, k: int) -> tuple[Scaled, Tensor]:
    """Weights in fp8, and what they stand for."""
    data, scale = quantise_channels(rand(n, k))
    return Scaled(data, scale), data.float() * scale[:, None]


def rows(x: Tensor) -> tuple[Scaled, Tensor]:
    """Rows in fp8 padded to 16, and what they stand for."""
    data, scale = quantise_groups(F.pad(x, (0, 0, 0, ROWS - len(x))), GROUP)
    return Scaled(data, scale.T.contiguous(), GROUP), widen_groups(data, scale, GROUP)[: len(x)]


def stream_of(residual: Tensor, norm: Tensor) -> Stream:
    stream = Stream(residual.shape[1], GROUP, FP8, DEVICE)
    table = F.pad(residual, (0, 0, 0, ROWS - len(residual)))
    embed(torch.arange(ROWS, device=DEVICE), table, norm, stream, len(residual))
    return stream


def heard(stream: Stream, n_rows: int) -> reference.Left:
    """What a stream stands for to the matmul that reads it."""
    assert stream.h.scale is not None
    return reference.Left(
        residual=stream.residual[:n_rows],
        h=widen_groups(stream.h.data, stream.h.scale.T, GROUP)[:n_rows],
        squares=stream.residual[:n_rows].square().sum(1),
    )


def nearly_all_equal(got: Tensor, want: Tensor) -> None:
    """e4m3 numbers alike but for a rare tie. Triton's interpreter drops the carry where rounding reaches a power of two."""
    same = (got.float() == want.float()).float().mean()
    assert same > (0.9 if DEVICE.type == "cpu" else 0.99)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_the_stream_is_rounded_as_the_reference_rounds() -> None:
    residual, norm = rand(5, WIDE), rand(WIDE)
    stream = stream_of(residual, norm)

    data, scale = quantise_groups(reference.leave(residual, norm).h, GROUP)
    assert stream.h.scale is not None
    nearly_all_equal(stream.h.data[:5], data)
    torch.testing.assert_close(stream.h.scale.T[:5], scale)


def _bits(schedule: Schedule, run: Callable[[Schedule], list[Tensor]]) -> None:
    plain = replace(schedule, bn=GROUP, parts=1, bk=GROUP)
    assert all(torch.equal(a, b) for a, b in zip(run(schedule), run(plain), strict=True))


@pytest.mark.parametrize("split", [1, 2, 3])
@pytest.mark.parametrize("parts", [1, 2])
def test_how_many_share_a_tile_changes_no_bit(split: int, parts: int) -> None:
    norm, (w, _), (x, _) = rand(WIDE), weight(WIDE, DEEP), rows(rand(5, DEEP))
    gate_up, _ = weight(2 * 3 * GROUP, WIDE)
    residual = rand(5, WIDE)

    def run(schedule: Schedule) -> list[Tensor]:
        stream = stream_of(residual, norm)
        out = empty_rows((3 * GROUP,), GROUP, FP8, DEVICE)
        SwigluMatmul(gate_up, replace(schedule, split=1), EPS)(stream, out, 5)
        ResidualMatmul(w, None, schedule)(x, stream, norm, 5)
        assert stream.h.scale is not None
        assert out.scale is not None
        return [stream.residual, stream.h.data.float(), stream.h.scale, out.data.float(), out.scale]

    _bits(Schedule(bn=GROUP // parts, parts=parts, bk=GROUP, split=split, stages=2), run)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_wider_tiles_keep_the_bits(groups: int) -> None:
    torch.manual_seed(7)
    norm, (w, _), (x, _) = rand(WIDE), weight(WIDE, 3 * GROUP), rows(rand(5, 3 * GROUP))
    streams = [stream_of(torch.zeros(5, WIDE, device=DEVICE), norm) for _ in range(2)]
    for stream, bk in zip(streams, (GROUP, groups * GROUP), strict=True):
        ResidualMatmul(w, None, Schedule(bn=GROUP, bk=bk, stages=2))(x, stream, norm, 5)

    assert torch.equal(streams[0].residual, streams[1].residual)


@pytest.mark.parametrize("split", [1, 3])
def test_residual_matmul_sums_scaled_groups(split: int) -> None:
    n, k, norm = WIDE, 3 * GROUP, rand(WIDE)
    w, plain_w = weight(n, k)
    x, plain_x = rows(rand(5, k))
    residual = rand(5, n)
    stream = stream_of(residual, norm)
    ResidualMatmul(w, None, Schedule(bn=GROUP, bk=GROUP, split=split, stages=2))(x, stream, norm, 5)

    close(stream.residual[:5], reference.add_product(residual, plain_x, plain_w, None, norm).residual)
    data, scale = quantise_groups(stream.residual[:5] * norm, GROUP)
    assert stream.h.scale is not None
    nearly_all_equal(stream.h.data[:5], data)
    torch.testing.assert_close(stream.h.scale.T[:5], scale)


def test_swiglu_and_head_norm_after_the_sum() -> None:
    k, norm = WIDE, rand(WIDE)
    residual = rand(4, k)
    gate_up, plain = weight(2 * 3 * GROUP, k)
    stream = stream_of(residual, norm)
    out = empty_rows((3 * GROUP,), GROUP, FP8, DEVICE)
    SwigluMatmul(gate_up, Schedule(bn=GROUP, bk=GROUP, stages=2), EPS)(stream, out, 4)

    data, scale = quantise_groups(reference.gate_up(heard(stream, 4), plain, EPS), GROUP)
    assert out.scale is not None
    nearly_all_equal(out.data[:4], data)
    torch.testing.assert_close(out.scale.T[:4], scale, rtol=1e-3, atol=0)

    w, plain = weight(300, k)
    logits = torch.zeros(ROWS, 300, device=DEVICE)
    won = Winners.within(torch.zeros(WORDS, dtype=torch.int64, device=DEVICE))
    HeadMatmul(w, Schedule(bn=64, bk=GROUP, stages=2), EPS)(stream, won, 4, logits)
    want = reference.head(heard(stream, 4), plain, EPS)
    close(logits[:4], want.logits)
    assert torch.equal(won.tokens[:4], want.tokens)
    close(won.probs[:4], want.probs)


def test_attention_rounds_each_head_by_itself() -> None:
    q, keys, values = rand(ROWS, 6, 16), rand(700, 2, 16), rand(700, 2, 16)
    attention = SplitAttention(6, 2, 16, 700, DEVICE, query_tile=16)
    cursor = torch.tensor([300], dtype=torch.int32, device=DEVICE)
    plain, rounded = empty_rows((6, 16), 16, torch.float32, DEVICE), empty_rows((6, 16), 16, FP8, DEVICE)
    attention(q, keys, values, cursor, plain, 7)
    attention(q, keys, values, cursor, rounded, 7)

    data, scale = quantise_groups(plain.flat().data[:7], 16)
    assert rounded.scale is not None
    nearly_all_equal(rounded.flat().data[:7], data)
    torch.testing.assert_close(rounded.scale.T[:7], scale)
    assert not plain.data[7:].any()
