"""The agreement suite on CUDA, one device and two, and what it rests on: a row's bits stand alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.tiny_models import FAMILIES, LAYERS, TinyModels
from torch import Tensor

from specmon.core.decoders.lane import DecodeLane
from specmon.core.drafters.scripted import Step
from specmon.core.engine.messages import LaneConfig
from specmon.core.events import ClockSync, Sampling
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk, Rows
from specmon.core.models.pool import LoadedModel
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
@pytest.mark.parametrize("drafter", ["draft_model", "eagle3", "ngram", "suffix", "hybrid", "scripted:0.7"])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_decoder_emits_ar_tokens_on_cuda(
    tiny: TinyModels, bench: Bench, devices: str, recipe: str, drafter: str, decoder: str
) -> None:
    target = tiny.target("qwen3")
    folders = {"draft_model": str(tiny.draft("qwen3")), "eagle3": str(tiny.eagle3("qwen3"))}
    draft = f"hybrid:{folders['eagle3']}" if drafter == "hybrid" else folders.get(drafter, drafter)
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
@pytest.mark.parametrize("recipe", ["bf16", "fp8"])
@pytest.mark.parametrize("drafter", ["draft_model", "eagle3"])
def test_trees_emit_ar_tokens_on_cuda(
    tiny: TinyModels, bench: Bench, devices: str, recipe: str, drafter: str
) -> None:
    """Past a chunk's border, and where a kept path closes up."""
    target = tiny.target("qwen3")
    draft = str(tiny.draft("qwen3") if drafter == "draft_model" else tiny.eagle3("qwen3"))
    config = {"recipe": recipe, "devices": devices}
    lane = bench.lane(target, "sd", draft=draft, draft_len=4, draft_nodes=15, **config)

    found = [lane.decode(max_new_tokens=48), lane.decode("0123456789" * 40, max_new_tokens=48)]

    ar = bench.lane(target, **config)
    assert [d.tokens for d in found] == [
        ar.decode(max_new_tokens=48).tokens,
        ar.decode("0123456789" * 40, max_new_tokens=48).tokens,
    ]
    if drafter == "draft_model":  # a head of random weights foresees next to nothing
        assert any(len(r.accepted_path or ()) > 1 for d in found for r in d.rounds)


@pytest.mark.usefixtures("poisoned")
@ON_CUDA
@pytest.mark.parametrize("recipe", ["bf16", "fp8"])
@pytest.mark.parametrize("n_nodes", [0, 15])
def test_block_drafter_emits_ar_tokens_on_cuda(
    tiny: TinyModels, bench: Bench, devices: str, recipe: str, n_nodes: int
) -> None:
    """A second turn goes on with what the first one left."""
    config = {"recipe": recipe, "devices": devices}
    draft = {"draft": str(tiny.block("qwen3")), "draft_len": 4, "draft_nodes": n_nodes}
    ar, sd = (bench.lane(tiny.target("qwen3"), d, **draft, **config) for d in ("ar", "sd"))
    turns = (
        [("user", "the cat sat")],
        [("user", "the cat sat"), ("assistant", "on"), ("user", "0123456789" * 30)],
    )

    found, wanted = ([lane.decode(turn, max_new_tokens=48) for turn in turns] for lane in (sd, ar))

    assert [d.tokens for d in found] == [d.tokens for d in wanted]
    assert {r.drafter for d in found for r in d.rounds} == {"block"}


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
@pytest.mark.parametrize("drafter", ["smollm2-draft-17m", "smollm2-eagle3"])
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


def cache(loaded: LoadedModel, n_slots: int) -> KvCache:
    config = loaded.model.config
    return KvCache.of(config, n_slots=n_slots, dtype=loaded.recipe.kv, device="cuda:0")


@pytest.mark.gpu
@RECIPES
@pytest.mark.parametrize("family", FAMILIES)
def test_passes_of_any_size_give_the_same_bits_on_cuda(
    tiny: TinyModels, bench: Bench, recipe: str, family: str
) -> None:
    loaded = bench.pool.target(str(tiny.target(family)), recipe, "cuda:0", lambda what, fraction: None)
    tokens, kv = torch.arange(20, 68, device="cuda:0"), cache(loaded, n_slots=64)
    loaded.model.hidden(tokens[:32], kv, Chunk(0, 32))

    def decode(size: int) -> Tensor:
        starts = range(32, 48, size)
        passes = [Rows(start, min(size, 48 - start)) for start in starts]
        hidden = [loaded.model.hidden(tokens[p.positions], kv, p)[0] for p in passes]
        return loaded.model.logits(torch.cat(hidden))

    alone = decode(1)
    for size in (2, 3, 5, 8, 15, 16):
        assert torch.equal(decode(size), alone), size


# --- whole drafts, and what the host launches -------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_draft_in_one_graph_has_the_bits_of_single_rows(
    tiny: TinyModels, bench: Bench, family: str, graphs: bool
) -> None:
    loaded = bench.pool.target(str(tiny.target(family)), "bf16", "cuda:0", lambda what, fraction: None)
    drafting, stepping = loaded.open(cache(loaded, 400), graphs=graphs), loaded.open(cache(loaded, 400))
    for prompt_len in (11, 250, 30):  # the second crosses a chunk of keys; buffers and graphs serve all three
        prompt = (torch.arange(prompt_len, device="cuda:0") * 7 + prompt_len) % 90
        for passes in (drafting, stepping):
            passes.prefill(prompt, 0, ())
        for n_rows, steps in ((1, 4), (2, 4), (2, 5), (5, 1), (16, 15)):
            fed, start = [(3 * i + n_rows) % 90 for i in range(n_rows)], prompt_len
            drafted = drafting.chain(fed, start, steps, logits=True)
            silent = drafting.chain(fed, start, steps, logits=False)
            assert drafted.logits_SV is not None
            for i in range(steps):
                out = stepping.rows(fed, start, (), logits=True)
                assert out.logits_RV is not None
                assert out.probs is not None
                assert torch.equal(drafted.logits_SV[i], out.logits_RV[-1]), (n_rows, steps, i)
                assert drafted.tokens[i] == out.greedy[-1]
                assert drafted.probs[i] == out.probs[-1]
                fed, start = [drafted.tokens[i]], start + len(fed)
            assert (silent.tokens, silent.probs, silent.logits_SV) == (drafted.tokens, drafted.probs, None)
            soft = drafted.logits_SV.softmax(dim=1).amax(dim=1).tolist()
            assert drafted.probs == pytest.approx(soft, rel=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [True, False])
def test_drafts_of_one_graph_change_no_token(tiny: TinyModels, bench: Bench, graphs: bool) -> None:
    config = {"recipe": "bf16", "devices": "cuda:0", "graphs": graphs}
    target, draft = tiny.target("qwen2"), str(tiny.draft("qwen2"))
    lanes = [bench.lane(target, **config)]
    lanes += [bench.lane(target, d, draft=draft, fan_out=(2,), **config) for d in ("sd", "ssd")]

    for prompt in ("the cat sat", "0123456789" * 40, "the cat sat on"):
        ar, sd, ssd = (lane.decode(prompt, max_new_tokens=64).tokens for lane in lanes)
        assert ar == sd == ssd


@pytest.mark.gpu
def test_host_launches_a_graph_for_the_draft_and_one_for_verification(tiny: TinyModels, bench: Bench) -> None:
    config = {"recipe": "bf16", "devices": "cuda:0", "draft": str(tiny.draft())}
    ar, sd = (bench.lane(tiny.target(), d, **config).decode(max_new_tokens=48) for d in ("ar", "sd"))
    hot = Sampling(temperature=0.8)
    sampled = bench.lane(tiny.target(), "sd", **config).decode(sampling=hot, max_new_tokens=8)

    assert {r.host_launches for r in ar.rounds} == {1}
    assert {r.host_launches for r in sd.rounds} == {2}
    assert {r.host_launches for r in sampled.rounds} == {None}  # sampling's launches are not counted


@pytest.mark.gpu
def test_host_launches_one_graph_for_a_heads_draft(tiny: TinyModels, bench: Bench) -> None:
    """Verification is a graph and the copy of its features, which the draft's graph reads where they lie."""
    config = {"recipe": "bf16", "devices": "cuda:0", "draft": str(tiny.eagle3()), "draft_len": 3}
    ar, sd = (bench.lane(tiny.target(), d, **config).decode(max_new_tokens=48) for d in ("ar", "sd"))

    assert sd.tokens == ar.tokens
    assert {r.host_launches for r in sd.rounds} == {3}


@pytest.mark.gpu
@pytest.mark.parametrize(("draft", "least"), [("draft", 2), ("eagle3", 3)])
def test_host_launches_one_more_where_a_trees_path_closes_up(
    tiny: TinyModels, bench: Bench, draft: str, least: int
) -> None:
    """A graph for the tree, one for verification and, for a head, the copy of its features."""
    drafter = str({"draft": tiny.draft, "eagle3": tiny.eagle3}[draft]())
    config = {"recipe": "bf16", "devices": "cuda:0", "draft": drafter, "draft_len": 3, "draft_nodes": 9}
    found = bench.lane(tiny.target(), "sd", **config).decode(max_new_tokens=96)

    assert found.tokens == bench.lane(tiny.target(), **config).decode(max_new_tokens=96).tokens
    whole = found.rounds[:-1]  # the last one is cut off, and its path may be
    moved = [r.accepted_path != tuple(range(r.accepted_len)) for r in whole]
    assert any(moved)
    assert [r.host_launches for r in whole] == [least + by for by in moved]


@pytest.mark.gpu
@pytest.mark.embedded
@pytest.mark.parametrize("recipe", ["bf16", "fp8", "fp8-bf16-head"])
def test_shipped_head_changes_no_token_on_the_streaming_kernels(embedded_bench: Bench, recipe: str) -> None:
    config = {"recipe": recipe, "devices": "cuda:0"}
    prompt = "Write a Python function that merges two sorted lists."
    ar = embedded_bench.lane("smollm2", **config).decode(prompt, max_new_tokens=96)
    sd = embedded_bench.lane("smollm2", "sd", draft="eagle3", **config).decode(prompt, max_new_tokens=96)

    assert sd.tokens == ar.tokens
    assert sum(sd.accepted) > len(sd.rounds) / 4  # features of another place would hardly ever be accepted
    assert max(r.host_launches or 99 for r in sd.rounds[:-1]) <= 3


@pytest.mark.gpu
def test_without_graphs_every_kernel_and_copy_is_a_launch(tiny: TinyModels, bench: Bench) -> None:
    """Target and draft have as many layers: a pass of either launches as many kernels."""
    config = {
        "recipe": "bf16",
        "devices": "cuda:0",
        "graphs": False,
        "draft": str(tiny.draft()),
        "draft_len": 4,
    }
    ar, sd = (bench.lane(tiny.target(), decoder, **config).decode() for decoder in ("ar", "sd"))

    (step,) = {r.host_launches for r in ar.rounds}
    assert step is not None
    one_pass = step - 1  # without the cursor's copy
    assert (
        one_pass >= 1 + 5 * LAYERS + 2
    )  # embedding; qkv, attention, o, gate and up, down; head and its winner
    draft = 4 * one_pass + 3  # the cursor's copy, all cursors, the outcomes' copy
    assert {r.host_launches for r in sd.rounds} == {draft + step}


@pytest.mark.gpu
def test_verification_is_timed_by_the_device(tiny: TinyModels, bench: Bench) -> None:
    found = bench.lane(tiny.target(), recipe="bf16", devices="cuda:0").decode(max_new_tokens=32)
    clocks = [event for event in found.events if isinstance(event, ClockSync)]
    verified = [(r, span) for r in found.rounds for span in r.spans if span.kind == "verify"]

    assert clocks
    assert {event.device for event in clocks} == {"cuda:0"}
    assert len(verified) == len(found.rounds)
    for r, span in verified:  # shorter than what the host saw: it launched before, and looked after
        assert r.t0 < span.start < span.end < r.t1


@pytest.mark.gpu
def test_capturing_says_what_it_captures(tiny: TinyModels, bench: Bench) -> None:
    said: list[str] = []
    lane = DecodeLane(
        LaneConfig(
            decoder="sd",
            target=str(tiny.target()),
            draft=str(tiny.draft()),
            recipe="bf16",
            devices="cuda:0",
            draft_len=3,
        ),
        pool=bench.pool,
        progress=lambda what, fraction: said.append(what),
        clock=lambda: 0,
    )
    lane.close()

    assert [what for what in said if what.startswith("capturing")] == [
        *(f"capturing graphs: draft prompt {size}" for size in (64, 128, 256)),
        "capturing graphs: draft 3 after 1 token",
        "capturing graphs: draft 3 after 2 tokens",
        *(f"capturing graphs: prompt {size}" for size in (64, 128, 256)),
        "capturing graphs: verify 1 row",
        "capturing graphs: verify 4 rows",
    ]


@pytest.mark.gpu2
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
def test_target_shared_by_two_gpus_emits_the_tokens_of_one(
    tiny: TinyModels, bench: Bench, recipe: str
) -> None:
    """A draft would have the last device; AR needs none, so that two GPUs do."""
    shared = bench.lane(tiny.target(), devices="cuda:0,cuda:1,cuda:1", recipe=recipe)
    assert shared.lane.describe(0, 0).devices == ("cuda:0", "cuda:1")

    one = bench.lane(tiny.target(), devices="cuda:0", recipe=recipe, backend="reference")
    assert shared.decode(max_new_tokens=40).tokens == one.decode(max_new_tokens=40).tokens
