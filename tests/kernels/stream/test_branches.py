"""Branches drafted as one batch: each has the bits of the draft that would follow on the main line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import BranchStart
from specmon.core.models.random_weights import PREFIX, RandomFile
from specmon.core.models.recipe import Recipe, resolve_recipe
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.streamed import StreamedModel, StreamedPasses
from specmon.core.models.transformer import Transformer
from specmon.kernels.attention.split import TILED_FROM

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu:0"
FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
LINE = [3, 50, 21, 90]  # the draft that branches leave, on the main line
N_SLOTS = 640
Build = Callable[[str], Transformer]


@pytest.fixture
def build(tiny: Any) -> Build:
    def model(family: str) -> Transformer:
        file = HfFolder(tiny.two_layers(family))
        return build_transformer(file, FP32, DEVICE, max_positions=700, progress=lambda what, part: None)

    return model


def cache(model: Transformer, dtype: torch.dtype = torch.float32, n_slots: int = N_SLOTS) -> KvCache:
    c = model.config
    return KvCache.of(c, n_slots=n_slots, dtype=dtype, device=model.device)


def fill(kv: KvCache, n_layers: int, end: int) -> None:
    """A context of `end` positions, NaN after it."""
    torch.manual_seed(0)
    for layer in range(n_layers):
        kv.keys(layer).normal_()
        kv.values(layer).normal_()
    kv.poison(end)


def branches_after(base: int, n_rows: int, steps: int) -> list[BranchStart]:
    """Branches off `LINE` at `base`, with slots in no order."""
    first = base + len(LINE)
    slots = [first + (13 * i + 3) % (n_rows * steps) for i in range(n_rows * steps)]
    assert len(set(slots)) == len(slots)
    return [
        BranchStart(
            prefix=base + (3 * j + 1) % (len(LINE) + 1),
            token=(11 * j + 5) % 90,
            slots=slots[j * steps : (j + 1) * steps],
        )
        for j in range(n_rows)
    ]


def assert_branches_are_main_lines(
    streamed: StreamedModel, base: int, n_rows: int, steps: int, dtype: torch.dtype, n_slots: int = N_SLOTS
) -> None:
    n_layers = streamed.reference.config.n_layers
    kv, alone_kv = (cache(streamed.reference, dtype, n_slots) for _ in range(2))
    batch, alone = StreamedPasses(streamed, kv), StreamedPasses(streamed, alone_kv)
    starts = branches_after(base, n_rows, steps)
    fill(kv, n_layers, base)
    batch.rows(LINE, base, (), logits=False)

    on_gpu = DEVICE != "cpu:0"
    for checked in (range(n_rows) if on_gpu else {0, n_rows - 1}, [n_rows // 2]):  # captured, and replayed
        found = batch.branches(starts, steps)
        for j in checked:
            start = starts[j]
            fill(alone_kv, n_layers, base)
            alone.rows(LINE, base, (), logits=False)
            alone_kv.poison(start.prefix)
            want = alone.chain([start.token], start.prefix, steps, logits=True)
            assert want.logits_SV is not None
            assert bool(torch.isfinite(want.logits_SV).all())
            assert torch.equal(found.logits_KBV[:, j], want.logits_SV), (start, j)
            assert (found.tokens[j], found.probs[j]) == (want.tokens, want.probs)
        starts = branches_after(base, n_rows, steps)[::-1]  # the same graph with other tables


@pytest.mark.parametrize(
    ("family", "base", "n_rows", "steps"),
    [("llama", 2, 3, 2), ("qwen2", 253, 3, 3), ("qwen3", 254, 7, 2), ("llama", 300, 1, 2)],
)
def test_a_branch_drafts_what_the_main_line_would(
    build: Build, family: str, base: int, n_rows: int, steps: int
) -> None:
    assert_branches_are_main_lines(StreamedModel(build(family)), base, n_rows, steps, torch.float32)


def test_a_moved_branch_is_the_main_line(build: Build) -> None:
    """Once adopted, a branch's slots hold what drafting it there would have left."""
    streamed = StreamedModel(build("qwen3"))
    kv, alone_kv = cache(streamed.reference), cache(streamed.reference)
    batch, alone = StreamedPasses(streamed, kv), StreamedPasses(streamed, alone_kv)
    starts, steps, n_layers = branches_after(253, 3, 2), 2, streamed.reference.config.n_layers
    for passes, slots in ((batch, kv), (alone, alone_kv)):
        fill(slots, n_layers, 253)
        passes.rows(LINE, 253, (), logits=False)
    drafted = batch.branches(starts, steps).tokens[2]
    batch.move(starts[2].slots, starts[2].prefix)
    alone.chain([starts[2].token], starts[2].prefix, steps, logits=False)

    after = starts[2].prefix + steps
    for layer in range(n_layers):
        assert torch.equal(kv.keys(layer)[:after], alone_kv.keys(layer)[:after])
        assert torch.equal(kv.values(layer)[:after], alone_kv.values(layer)[:after])
    one, other = (passes.chain(drafted[-1:], after, 1, logits=False) for passes in (batch, alone))
    assert (one.tokens, one.probs) == (other.tokens, other.probs)


def test_branches_are_the_references(build: Build) -> None:
    model = build("llama")
    n_layers, starts = model.config.n_layers, branches_after(20, 6, 3)
    kvs = [cache(model) for _ in range(2)]
    reference, streamed = ReferencePasses(model, kvs[0]), StreamedPasses(StreamedModel(model), kvs[1])
    for kv, passes in zip(kvs, (reference, streamed), strict=True):
        fill(kv, n_layers, 20)
        passes.rows(LINE, 20, (), logits=False)
    kvs[0].poison(20 + len(LINE) + 6 * 3)  # the reference multiplies what it masks by zero
    for layer in range(n_layers):
        for own in (kvs[0].keys(layer), kvs[0].values(layer)):
            own[20 + len(LINE) : 20 + len(LINE) + 6 * 3] = 0.0

    want, got = (passes.branches(starts, 3) for passes in (reference, streamed))

    assert got.tokens == want.tokens
    torch.testing.assert_close(got.logits_KBV, want.logits_KBV, rtol=1e-3, atol=1e-3)
    for row, wanted in zip(got.probs, want.probs, strict=True):
        assert row == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize(
    ("starts", "steps"),
    [
        ([], 1),
        ([*branches_after(4, 16, 1), BranchStart(prefix=4, token=1, slots=[100])], 1),
        (branches_after(4, 2, 2), 3),  # too few slots
        (branches_after(4, 2, 2), 0),
        ([BranchStart(prefix=9, token=1, slots=[8])], 1),  # a slot that others see
        ([BranchStart(prefix=9, token=1, slots=[20]), BranchStart(prefix=9, token=1, slots=[20])], 1),
        ([BranchStart(prefix=9, token=1, slots=[N_SLOTS])], 1),
    ],
    ids=["none", "17", "few slots", "no step", "shared slot", "one slot twice", "past the cache"],
)
def test_branches_that_cannot_be_are_refused(build: Build, starts: list[BranchStart], steps: int) -> None:
    model = build("llama")
    for passes in (ReferencePasses(model, cache(model)), StreamedPasses(StreamedModel(model), cache(model))):
        with pytest.raises(ValueError, match="branches of"):
            passes.branches(starts, steps)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu:0", reason="needs a CUDA device")
@pytest.mark.parametrize("recipe", ["bf16", "fp8"])
@pytest.mark.parametrize("shape", ["smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b"])
@pytest.mark.parametrize(
    ("base", "n_rows", "steps"), [(40, 16, 4), (253, 16, 4), (255, 5, 7), (TILED_FROM + 200, 16, 4)]
)
def test_a_branch_on_a_gpu_drafts_what_the_main_line_would(
    shape: str, recipe: str, base: int, n_rows: int, steps: int
) -> None:
    file, n_slots = RandomFile(PREFIX + shape), base + 200
    with torch.inference_mode():
        model = build_transformer(
            file,
            resolve_recipe(recipe, DEVICE, file),
            DEVICE,
            max_positions=n_slots,
            progress=lambda what, part: None,
        )
        assert_branches_are_main_lines(
            StreamedModel(model), base, n_rows, steps, torch.bfloat16, n_slots=n_slots
        )


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu:0", reason="needs a CUDA device")
def test_a_batch_of_branches_is_one_graph(build: Build) -> None:
    streamed = StreamedModel(build("qwen3"))
    passes = StreamedPasses(streamed, cache(streamed.reference))
    starts = branches_after(20, 6, 3)
    passes.branches(starts, 3)

    assert passes.branches(starts, 3).launches == 1
