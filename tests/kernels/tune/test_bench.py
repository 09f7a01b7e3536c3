"""The real kernels under other schedules: outputs in the interpreter, times on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specmon.core.models.matmuls import matmuls_of
from specmon.core.models.random_weights import SHAPES
from specmon.kernels.stream.schedule import WEIGHTS, Schedule
from specmon.kernels.stream.shapes import HeadShape, Matmul
from specmon.kernels.tune.bench import StreamBench
from specmon.kernels.tune.search import search
from specmon.kernels.tune.space import candidates

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HEADS = HeadShape(n_heads=2, n_kv_heads=1, head_dim=16)
TINY = [
    Matmul(op="qkv", n=64, k=64, heads=HEADS, biased=True, head_norms=True),
    Matmul(op="o", n=48, k=64),
    Matmul(op="gate_up", n=48, k=64),
    Matmul(op="head", n=96, k=64),
]
IN_FP8 = [replace(m, k=128, group=32, weights="fp8") for m in TINY[1:]]
BN = {"qkv": 16, "o": 16, "gate_up": 32, "head": 32}


@pytest.mark.parametrize("matmul", TINY + IN_FP8, ids=lambda m: f"{m.op}-{m.weights}")
def test_other_stages_keep_the_bits(matmul: Matmul) -> None:
    bench = StreamBench(matmul, DEVICE, dtype=torch.float32, weight_bytes=1)
    one = Schedule(bn=BN[matmul.op], bk=32, stages=2)
    first, again, other = (bench.output(s) for s in (one, one, replace(one, stages=3)))

    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert all(bool(tensor.float().any()) for tensor in first)


def test_a_square_matmul_does_not_write_what_it_reads() -> None:
    bench = StreamBench(Matmul(op="o", n=64, k=64), DEVICE, dtype=torch.float32, weight_bytes=1)
    first, again = (bench.output(Schedule(bn=16, bk=16, stages=2)) for _ in range(2))

    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_another_split_changes_bits_and_little_else() -> None:
    bench = StreamBench(TINY[1], DEVICE, dtype=torch.float32, weight_bytes=1)
    whole, parts = (bench.output(Schedule(bn=16, bk=16, split=split, stages=2))[0] for split in (1, 2))

    assert not torch.equal(whole, parts)
    torch.testing.assert_close(whole, parts, rtol=1e-5, atol=1e-5)


def test_weights_are_distinct_and_too_many_for_a_cache() -> None:
    bench = StreamBench(TINY[1], DEVICE, weight_bytes=10 * 48 * 64 * 2)
    assert len(bench.weights) == 10
    assert len({weight.data.data_ptr() for weight in bench.weights}) == 10


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", SHAPES)
def test_candidates_fit_and_keep_the_split_unless_asked(name: str, weights: str) -> None:
    for matmul in matmuls_of(SHAPES[name], weights):
        now = matmul.schedule
        keep, every = (candidates(matmul, any_split=any_split) for any_split in (False, True))
        assert set(keep) <= set(every)
        assert now not in every
        assert {s.split for s in keep} == {now.split}
        assert all(0 < matmul.k - (s.split - 1) * s.k_part(matmul.k) <= s.k_part(matmul.k) for s in every)
        if matmul.op not in ("gate_up", "head"):
            assert {s.tile for s in every} <= {now.tile}
        if weights == "fp8":
            assert all(s.bk % matmul.group == 0 for s in every)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("matmul", matmuls_of(SHAPES["smollm2-135m"]), ids=lambda m: m.op)
def test_a_search_on_a_gpu_keeps_the_bits(matmul: Matmul) -> None:
    with torch.inference_mode():
        bench = StreamBench(matmul, DEVICE, weight_bytes=64 << 20)
        tried = candidates(matmul, any_split=False)[:6]
        found = search(matmul.schedule, tried, bench, new_bits=False, rounds=4)
        outputs = [bench.output(s) for s in (found.current, found.best)]

    assert found.same_bits
    assert 0 < found.best_us <= found.current_us
    assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))
