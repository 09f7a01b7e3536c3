"""Each streaming kernel against its reference, at shapes that fill no tile, and row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.kernels.attention.reference import attend_rows
from specmon.kernels.attention.split import CHUNK, SplitAttention
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.frequencies import inverse_frequencies
from specmon.kernels.stream import reference
from specmon.kernels.stream.launch import (
    HeadMatmul,
    QkvMatmul,
    ResidualMatmul,
    Stream,
    SwigluMatmul,
    embed,
)
from specmon.kernels.stream.scaled import ROWS, Scaled
from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.shapes import HeadShape
from specmon.kernels.stream.winners import WORDS, Winners

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-5


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


def padded(rows: Tensor) -> Tensor:
    return F.pad(rows, (0, 0, 0, ROWS - len(rows)))


def stream_of(residual: Tensor, norm: Tensor, tile: int) -> Stream:
    """A stream that holds `residual`, as a kernel before would have left it."""
    width = residual.shape[1]
    stream = Stream(width, tile, torch.float32, DEVICE)
    embed(torch.arange(ROWS, device=DEVICE), padded(residual), norm, stream, len(residual))
    return stream


def no_winners() -> Winners:
    return Winners.within(torch.zeros(WORDS, dtype=torch.int64, device=DEVICE))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def left_alike(stream: Stream, want: reference.Left) -> None:
    n_rows = len(want.residual)
    close(stream.residual[:n_rows], want.residual)
    close(stream.h.data[:n_rows], want.h)
    close(stream.sumsq.sum(0)[:n_rows], want.squares)


def test_a_product_of_what_is_left_is_that_of_normed_rows() -> None:
    residual, norm, weight = rand(5, 48), rand(48), rand(40, 48)
    found = reference.normed_product(reference.leave(residual, norm), weight, EPS)
    close(found, F.linear(rmsnorm(residual, norm, EPS), weight))


@pytest.mark.parametrize(("width", "tile"), [(96, 32), (80, 32), (40, 64)])
@pytest.mark.parametrize("n_rows", [1, 5, 16])
def test_embedding_starts_the_stream(width: int, tile: int, n_rows: int) -> None:
    table, norm = rand(300, width).bfloat16(), rand(width)
    tokens = torch.randint(300, (ROWS,), device=DEVICE)
    stream = Stream(width, tile, torch.float32, DEVICE)
    embed(tokens, table, norm, stream, n_rows)

    left_alike(stream, reference.embed(tokens[:n_rows], table, norm))
    assert not stream.residual[n_rows:].any()


@pytest.mark.parametrize(
    ("n", "k", "schedule"),
    [
        (96, 64, Schedule(bn=32, bk=32, split=2, stages=2)),
        (80, 96, Schedule(bn=32, bk=64, split=1, stages=2)),
        (40, 48, Schedule(bn=16, bk=16, split=3, stages=2)),
        (96, 160, Schedule(bn=16, parts=2, bk=32, split=3, stages=2)),  # the last part of K is shorter
        (80, 72, Schedule(bn=16, parts=4, bk=16, split=2, stages=2)),  # and so is the last tile
    ],
)
@pytest.mark.parametrize("biased", [False, True])
def test_residual_matmul_adds_and_prepares_the_next_norm(
    n: int, k: int, schedule: Schedule, biased: bool
) -> None:
    weight, bias, norm = rand(n, k), rand(n) if biased else None, rand(n)
    residual, x = rand(5, n), rand(5, k)
    stream = stream_of(residual, norm, schedule.tile)
    ResidualMatmul(Scaled(weight), bias, schedule)(Scaled(padded(x)), stream, norm, 5)

    left_alike(stream, reference.add_product(residual, x, weight, bias, norm))


def test_a_split_that_leaves_a_part_without_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="1536 inputs do not make 8 parts of whole steps of 128"):
        ResidualMatmul(Scaled(rand(16, 1536)), None, Schedule(bn=16, bk=128, split=8))


def test_split_counters_are_ready_for_the_next_launch() -> None:
    schedule = Schedule(bn=16, bk=16, split=2, stages=2)
    weight, norm, x = rand(32, 32), rand(32), rand(3, 32)
    matmul = ResidualMatmul(Scaled(weight), None, schedule)
    results = []
    for _ in range(2):
        stream = stream_of(torch.zeros(3, 32, device=DEVICE), norm, 16)
        matmul(Scaled(padded(x)), stream, norm, 3)
        results.append(stream.residual.clone())

    assert torch.equal(*results)


@pytest.mark.parametrize(("n", "k"), [(96, 64), (40, 80)])
@pytest.mark.parametrize(
    "schedule", [Schedule(bn=32, bk=32, stages=2), Schedule(bn=8, parts=4, bk=16, stages=2)]
)
def test_swiglu_matmul_norms_gates_and_multiplies(n: int, k: int, schedule: Schedule) -> None:
    weight, norm, residual = rand(2 * n, k) * 0.2, rand(k), rand(4, k)
    out = torch.zeros(ROWS, n, device=DEVICE)
    SwigluMatmul(Scaled(weight), schedule, EPS)(stream_of(residual, norm, 16), Scaled(out), 4)

    close(out[:4], reference.gate_up(reference.leave(residual, norm), weight, EPS))
    assert not out[4:].any()


@pytest.mark.parametrize("vocabulary", [300, 64, 257])
def test_head_names_the_best_token_its_margin_and_its_probability(vocabulary: int) -> None:
    weight, norm, residual = rand(vocabulary, 64) * 0.3, rand(64), rand(6, 64)
    head = HeadMatmul(Scaled(weight), Schedule(bn=64, bk=64, stages=2), EPS)
    logits = torch.zeros(ROWS, vocabulary, device=DEVICE)
    won = no_winners()
    head(stream_of(residual, norm, 32), won, 6, logits)

    want = reference.head(reference.leave(residual, norm), weight, EPS)
    close(logits[:6], want.logits)
    assert torch.equal(won.tokens[:6], want.tokens)
    close(won.margins[:6], want.margins)
    close(won.probs[:6], want.probs)
    assert not won.tokens[6:].any()
    assert not won.probs[6:].any()


def test_probability_stands_where_logits_would_overflow() -> None:
    weight = torch.zeros(300, 32, device=DEVICE)
    weight[[70, 290]] = 8.0  # logits of 256: exp overflows in fp32
    weight[5] = 7.75
    head = HeadMatmul(Scaled(weight), Schedule(bn=64, bk=32, stages=2), EPS)
    won = no_winners()
    head(stream_of(torch.ones(1, 32, device=DEVICE), torch.ones(32, device=DEVICE), 32), won, 1)

    assert won.tokens[0] == 70
    assert float(won.probs[0]) == pytest.approx(1 / (2 + math.exp(-8)), rel=1e-4)


def test_head_gives_ties_to_the_lower_token() -> None:
    weight = torch.zeros(200, 32, device=DEVICE)
    weight[[70, 130, 190]] = 1.0
    norm = torch.ones(32, device=DEVICE)
    head = HeadMatmul(Scaled(weight), Schedule(bn=64, bk=32, stages=2), EPS)
    won = no_winners()
    head(stream_of(torch.ones(1, 32, device=DEVICE), norm, 32), won, 1)

    assert won.tokens[0] == 70
    assert won.margins[0] == 0


@pytest.mark.parametrize("n_rows", [1, 2, 7, 16])
def test_winners_stand_alone_and_start_where_asked(n_rows: int) -> None:
    norm, residual = rand(64), rand(n_rows, 64)
    head = HeadMatmul(Scaled(rand(257, 64)), Schedule(bn=64, bk=32, stages=2), EPS)
    together, last = no_winners(), no_winners()
    stream = stream_of(residual, norm, 32)
    head(stream, together, n_rows)
    head(stream, last, n_rows, first=n_rows - 1)

    for row in range(n_rows):
        alone = no_winners()
        head(stream_of(residual[row : row + 1], norm, 32), alone, 1)
        for a, b in (
            (alone.tokens, together.tokens),
            (alone.margins, together.margins),
            (alone.probs, together.probs),
        ):
            assert a[0] == b[row]
    assert (last.tokens[0], last.probs[0]) == (together.tokens[n_rows - 1], together.probs[n_rows - 1])
    assert not last.tokens[1:].any()


SHAPE = HeadShape(n_heads=6, n_kv_heads=2, head_dim=16)
Heads = tuple[Tensor, Tensor, Tensor]


class _Layer:
    """qkv and attention of one layer, K and V laid out differently."""

    def __init__(self, *, biased: bool, head_norms: bool, parts: int = 1) -> None:
        n = (SHAPE.n_heads + 2 * SHAPE.n_kv_heads) * SHAPE.head_dim
        self.weight, self.bias = rand(n, 64) * 0.2, rand(n) if biased else None
        self.norms = (rand(16), rand(16)) if head_norms else None
        self.qkv = QkvMatmul(
            Scaled(self.weight), self.bias, self.norms, SHAPE,
            Schedule(bn=16 // parts, parts=parts, bk=32, split=2, stages=2), EPS,
        )  # fmt: skip
        inverse, _ = inverse_frequencies(16, 10_000.0)
        angles = torch.arange(800)[:, None] * inverse
        self.cos, self.sin = angles.cos().to(DEVICE), angles.sin().to(DEVICE)
        self.keys = rand(SHAPE.n_kv_heads, 800, 16).transpose(0, 1)
        self.values = rand(800, SHAPE.n_kv_heads, 16)
        self.attention = SplitAttention(6, 2, 16, 800, DEVICE, query_tile=16)

    def run(self, stream: Stream, cursor: int, n_rows: int) -> Heads:
        q, out = torch.zeros(2, ROWS, SHAPE.n_heads, 16, device=DEVICE)
        at = torch.arange(cursor, cursor + ROWS, dtype=torch.int32, device=DEVICE)
        self.qkv(stream, self.cos, self.sin, at, at, q, self.keys, self.values, n_rows)
        self.attention(q, self.keys, self.values, at, Scaled(out), n_rows)
        return q[:n_rows], self.keys[cursor : cursor + n_rows].clone(), out[:n_rows]

    def expected_heads(self, left: reference.Left, cursor: int) -> Heads:
        at = torch.arange(cursor, cursor + len(left.h), device=DEVICE)
        return reference.qkv(left, self.weight, self.bias, self.norms, SHAPE, self.cos, self.sin, at, EPS)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("head_norms", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_qkv_biases_norms_turns_and_appends(biased: bool, head_norms: bool, parts: int) -> None:
    layer = _Layer(biased=biased, head_norms=head_norms, parts=parts)
    norm, residual = rand(64), rand(5, 64)
    before = layer.values.clone()
    q, k, _ = layer.run(stream_of(residual, norm, 32), 250, 5)

    want_q, want_k, want_v = layer.expected_heads(reference.leave(residual, norm), 250)
    close(q, want_q)
    close(k, want_k)
    close(layer.values[250:255], want_v)
    assert torch.equal(layer.values[:250], before[:250])
    assert torch.equal(layer.values[255:], before[255:])


@pytest.mark.parametrize("cursor", [0, 1, 254, CHUNK, 2 * CHUNK - 2, 700])
@pytest.mark.parametrize("n_rows", [1, 7])
def test_attention_sees_each_rows_own_length(cursor: int, n_rows: int) -> None:
    layer, norm = _Layer(biased=False, head_norms=False), rand(64)
    q, _, out = layer.run(stream_of(rand(n_rows, 64), norm, 32), cursor, n_rows)

    close(out, attend_rows(q, layer.keys, layer.values, range(cursor + 1, cursor + n_rows + 1)))


def test_stale_slots_are_never_read() -> None:
    layer, norm, residual = _Layer(biased=False, head_norms=False), rand(64), rand(3, 64)
    _, _, clean = layer.run(stream_of(residual, norm, 32), 250, 3)
    layer.keys[253:] = float("nan")
    layer.values[253:] = float("nan")
    _, _, poisoned = layer.run(stream_of(residual, norm, 32), 250, 3)

    assert torch.equal(clean, poisoned)


def _rows_alone(run: Callable[[list[int]], Tensor], n_rows: int) -> None:
    together = run(list(range(n_rows)))
    for row in range(n_rows):
        assert torch.equal(run([row])[0], together[row]), row
    assert torch.equal(run(list(reversed(range(n_rows)))), together.flip(0))


@pytest.mark.parametrize("n_rows", [2, 5])
def test_matmul_rows_stand_alone(n_rows: int) -> None:
    residual, norm = rand(n_rows, 64), rand(64)
    swiglu = SwigluMatmul(Scaled(rand(160, 64)), Schedule(bn=32, bk=32, stages=2), EPS)
    down = ResidualMatmul(Scaled(rand(64, 80)), None, Schedule(bn=32, bk=16, split=5, stages=2))

    def run(rows: list[int]) -> Tensor:
        stream = stream_of(residual[rows], norm, 32)
        inner = torch.zeros(ROWS, 80, device=DEVICE)
        swiglu(stream, Scaled(inner), len(rows))
        down(Scaled(inner), stream, norm, len(rows))
        return stream.residual[: len(rows)].clone()

    _rows_alone(run, n_rows)


@pytest.mark.parametrize(
    ("cursor", "n_rows", "checked"), [(253, 5, range(5)), (3, 3, range(3)), (510, 16, (0, 5, 15))]
)
def test_attention_rows_equal_one_row_at_a_time(cursor: int, n_rows: int, checked: Sequence[int]) -> None:
    layer, norm, residual = _Layer(biased=True, head_norms=True), rand(64), rand(n_rows, 64)
    _, together_k, together = layer.run(stream_of(residual, norm, 32), cursor, n_rows)
    for row in checked:
        _, k, out = layer.run(stream_of(residual[row : row + 1], norm, 32), cursor + row, 1)
        assert torch.equal(k[0], together_k[row])
        assert torch.equal(out[0], together[row]), row
