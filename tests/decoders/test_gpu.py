"""The agreement suite on CUDA, one device and two, and what it rests on: a row's bits stand alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.tiny_models import FAMILIES, TinyModels
from torch import Tensor

from specmon.core.drafters.scripted import Step
from specmon.core.events import Sampling
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk, Rows
from specmon.kernels.attention.reference import attend_rows
from specmon.kernels.linear import DenseLinear
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.swiglu.reference import swiglu

from .harness import Bench

ONE = pytest.param("cuda:0", marks=pytest.mark.gpu)
TWO = pytest.param("cuda:0,cuda:1", marks=pytest.mark.gpu2)
ON_CUDA = pytest.mark.parametrize("devices", [ONE, TWO])
RECIPES = pytest.mark.parametrize("recipe", ["bf16", "fp32"])
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
PATTERN = [Step(n, covered) for n in range(5) for covered in (True, False)]


@pytest.fixture(autouse=True)
def _enough_devices(request: pytest.FixtureRequest) -> Iterator[None]:
    needed = 2 if request.node.get_closest_marker("gpu2") else 1
    found = torch.cuda.device_count()
    if found < needed:
        pytest.skip(f"needs {needed} CUDA device{'s' * (needed > 1)}, found {found}")
    with torch.inference_mode():
        yield


# --- agreement --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("poisoned")
@ON_CUDA
@RECIPES
@pytest.mark.parametrize("drafter", ["draft_model", "eagle3", "ngram", "scripted:0.7"])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_decoder_emits_ar_tokens_on_cuda(
    tiny: TinyModels, bench: Bench, devices: str, recipe: str, drafter: str, decoder: str
) -> None:
    target = tiny.target("qwen3")
    draft = {"draft_model": str(tiny.draft("qwen3")), "eagle3": str(tiny.eagle3("qwen3"))}.get(
        drafter, drafter
    )
    config = {"recipe": recipe, "devices": devices}
    lane = bench.lane(target, decoder, draft=draft, fan_out=(3, 2, 1, 1, 2), **config)

    found = [lane.decode(max_new_tokens=48), lane.decode("0123456789" * 40)]

    ar = bench.lane(target, **config)
    assert [d.tokens for d in found] == [
        ar.decode(max_new_tokens=48).tokens,
        ar.decode("0123456789" * 40).tokens,
    ]


@pytest.mark.usefixtures("poisoned")
@ON_CUDA
@RECIPES
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_every_pattern_agrees_on_cuda(
    tiny: TinyModels, bench: Bench, devices: str, recipe: str, decoder: str
) -> None:
    config = {"recipe": recipe, "devices": devices}
    lane = bench.scripted(tiny.target(), decoder, PATTERN, tiny.vocab_size, **config)

    found = lane.decode(max_new_tokens=64)

    assert found.tokens == bench.lane(tiny.target(), **config).decode(max_new_tokens=64).tokens
    assert found.accepted[:-1] == [PATTERN[i % 10].accepted for i in range(len(found.rounds) - 1)]
    if decoder == "ssd":
        hits = [r.hit is not None for r in found.rounds[:-1]]
        assert hits == [PATTERN[i % 10].covered for i in range(len(hits))]


@pytest.mark.gpu
@RECIPES
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_agrees_on_cuda(tiny: TinyModels, bench: Bench, recipe: str, family: str) -> None:
    config = {"recipe": recipe, "devices": "cuda:0"}
    lane = bench.lane(tiny.target(family), "ssd", draft=str(tiny.draft(family)), **config)
    hot = Sampling(temperature=0.8, top_p=0.95)

    found = [lane.decode(), lane.decode(sampling=hot, seed=5)]

    ar = bench.lane(tiny.target(family), **config)
    assert [d.tokens for d in found] == [ar.decode().tokens, ar.decode(sampling=hot, seed=5).tokens]


@pytest.mark.embedded
@ON_CUDA
@RECIPES
@pytest.mark.parametrize("drafter", ["smollm2-draft-16m", "smollm2-eagle3"])
def test_embedded_model_agrees_on_cuda(
    embedded_bench: Bench, devices: str, recipe: str, drafter: str
) -> None:
    config = {"recipe": recipe, "devices": devices}
    prompt = "Write a Python function that merges two sorted lists."
    ar = embedded_bench.lane("smollm2", **config).decode(prompt, max_new_tokens=64)
    lane = embedded_bench.lane("smollm2", "ssd", draft=drafter, fan_out=(2,), **config)

    found = lane.decode(prompt, max_new_tokens=64)

    assert found.tokens == ar.tokens
    assert any(r.hit is not None for r in found.rounds)


# --- rows -------------------------------------------------------------------------------------------------------


def assert_rows_stand_alone(op: Callable[[Tensor], Tensor], row: Tensor) -> None:
    """A row has the same bits at any place among up to 16, whatever the others hold."""
    alone = op(row[None])[0]
    for count in range(2, 17):
        for index in {0, count // 2, count - 1}:
            rows = torch.randn(count, *row.shape, device=row.device).to(row.dtype) * 10
            rows[index] = row
            assert torch.equal(op(rows)[index], alone), f"row {index} of {count}"


@pytest.mark.gpu
@DTYPES
@pytest.mark.parametrize(("n", "k"), [(64, 64), (960, 576), (49152, 576), (4096, 2560), (9728, 4096)])
def test_linear_rows_stand_alone_on_cuda(dtype: torch.dtype, n: int, k: int) -> None:
    torch.manual_seed(0)
    weight = torch.randn(n, k, device="cuda:0").to(dtype) / k**0.5
    linear = DenseLinear(weight, torch.randn(n, device="cuda:0").to(dtype))

    assert_rows_stand_alone(linear, torch.randn(k, device="cuda:0"))


@pytest.mark.gpu
@pytest.mark.parametrize("width", [64, 576, 4096])
def test_elementwise_rows_stand_alone_on_cuda(width: int) -> None:
    weight = torch.randn(width, device="cuda:0")

    assert_rows_stand_alone(lambda x: rmsnorm(x, weight, 1e-6), torch.randn(width, device="cuda:0"))
    assert_rows_stand_alone(swiglu, torch.randn(2 * width, device="cuda:0"))


@pytest.mark.gpu
@DTYPES
@pytest.mark.parametrize("length", [1, 255, 256, 257, 3000])
def test_attention_rows_stand_alone_on_cuda(dtype: torch.dtype, length: int) -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(2, length + 16, 3, 64, device="cuda:0").to(dtype)

    def attend(q_RHD: Tensor) -> Tensor:
        return attend_rows(q_RHD, keys, values, [length] * len(q_RHD))

    assert_rows_stand_alone(attend, torch.randn(9, 64, device="cuda:0").to(dtype))


@pytest.mark.gpu
@RECIPES
@pytest.mark.parametrize("family", FAMILIES)
def test_passes_of_any_size_give_the_same_bits_on_cuda(
    tiny: TinyModels, bench: Bench, recipe: str, family: str
) -> None:
    loaded = bench.pool.target(str(tiny.target(family)), recipe, "cuda:0", lambda what, fraction: None)
    config, tokens = loaded.model.config, torch.arange(20, 68, device="cuda:0")
    kv = KvCache(
        n_layers=config.n_layers,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        n_slots=64,
        dtype=loaded.recipe.kv,
        device="cuda:0",
    )
    loaded.model.hidden(tokens[:32], kv, Chunk(0, 32))

    def decode(size: int) -> Tensor:
        starts = range(32, 48, size)
        passes = [Rows(start, min(size, 48 - start)) for start in starts]
        hidden = [loaded.model.hidden(tokens[p.positions], kv, p)[0] for p in passes]
        return loaded.model.logits(torch.cat(hidden))

    alone = decode(1)
    for size in (2, 3, 5, 8, 15, 16):
        assert torch.equal(decode(size), alone), size
