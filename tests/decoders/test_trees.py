"""SD that drafts trees: AR's tokens, greedy and sampled, and events that say which path was kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.drafters.base import Proposal
from specmon.core.events import Sampling
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import Passes
from specmon.core.models.pool import LoadedModel
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.streamed import StreamedModel, StreamedPasses

from .harness import Bench

PROMPT = "t9 t8 t7 t9 t8 t7 t9"
TREE = (-1, -1, 0, 0, 1, 2, 5)  # two first tokens; the first one's line goes four deep


@pytest.fixture(params=["draft_model", "eagle3", "block"])
def draft(request: pytest.FixtureRequest, tiny: TinyModels) -> str:
    return str({"draft_model": tiny.draft, "eagle3": tiny.eagle3, "block": tiny.block}[request.param]())


def tree(bench: Bench, tiny: TinyModels, draft: str, **config: Any) -> Any:
    settings = {"draft": draft, "draft_len": 3, "draft_nodes": 9, **config}
    return bench.lane(tiny.with_words(tiny.target()), "sd", **settings)


@pytest.mark.parametrize("n_nodes", [1, 4, 9, 15])
def test_tokens_are_those_of_ar(tiny: TinyModels, bench: Bench, draft: str, n_nodes: int) -> None:
    found = tree(bench, tiny, draft, draft_nodes=n_nodes).decode(PROMPT, raw=True, max_new_tokens=40)

    ar = bench.lane(tiny.with_words(tiny.target())).decode(PROMPT, raw=True, max_new_tokens=40)
    assert found.tokens == ar.tokens
    assert {len(r.draft) for r in found.rounds[:-3]} == {n_nodes}


def test_a_kept_path_that_is_not_the_first_leaves_a_whole_cache(tiny: TinyModels, bench: Bench) -> None:
    lane = tree(bench, tiny, str(tiny.draft()), draft_nodes=15)
    found = lane.decode(PROMPT, raw=True, max_new_tokens=60)

    paths = [r.accepted_path for r in found.rounds if r.accepted_path]
    assert any(path != tuple(range(len(path))) for path in paths)
    assert max(map(len, paths)) > 1
    again = lane.decode(PROMPT, raw=True, max_new_tokens=60)
    assert again.tokens == found.tokens


def test_sampling_draws_what_ar_draws(tiny: TinyModels, bench: Bench, draft: str) -> None:
    warm = {"raw": True, "max_new_tokens": 40, "sampling": Sampling(temperature=0.9), "seed": 7}

    ar = bench.lane(tiny.with_words(tiny.target())).decode(PROMPT, **warm)
    assert tree(bench, tiny, draft).decode(PROMPT, **warm).tokens == ar.tokens


def test_a_second_device_drafts_the_same_trees(tiny: TinyModels, bench: Bench) -> None:
    one, two = (
        tree(bench, tiny, str(tiny.draft()), devices=devices).decode(PROMPT, raw=True, max_new_tokens=24)
        for devices in ("cpu:0", "cpu:0,cpu:1")
    )
    assert [(r.draft, r.parents, r.accepted_path) for r in one.rounds] == [
        (r.draft, r.parents, r.accepted_path) for r in two.rounds
    ]


def test_loading_verifies_a_tree_and_moves_paths(
    tiny: TinyModels, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, move = ReferencePasses.rows, ReferencePasses.move
    trees, moved = [], []

    def seen(passes: Any, tokens: Any, *args: Any, parents: Any = None, **options: Any) -> Any:
        trees.append(parents and len(parents))
        return rows(passes, tokens, *args, parents=parents, **options)

    monkeypatch.setattr(ReferencePasses, "rows", seen)
    monkeypatch.setattr(
        ReferencePasses, "move", lambda p, slots, first: (moved.append(len(slots)), move(p, slots, first))[1]
    )
    tree(bench, tiny, str(tiny.draft()))

    assert 9 in trees
    assert moved == [1, 2, 3]


def test_a_full_context_leaves_room_for_no_tree(tiny: TinyModels, bench: Bench, draft: str) -> None:
    target = tiny.variant(tiny.with_words(tiny.target()), "short", max_position_embeddings=48)
    lane = bench.lane(target, "sd", draft=draft, draft_len=3, draft_nodes=9)
    found = lane.decode(PROMPT, raw=True, max_new_tokens=1000)

    assert found.tokens == bench.lane(target).decode(PROMPT, raw=True, max_new_tokens=1000).tokens
    assert found.end.stop_reason == "context"
    assert found.rounds[-1].draft == ()


def test_the_context_cuts_a_tree_by_its_depth() -> None:
    whole = Proposal(tokens=tuple(range(10, 17)), probs=(0.5,) * 7, parents=(-1, -1, 0, 0, 1, 2, 5))

    assert whole.no_deeper_than(2).parents == (-1, -1, 0, 0, 1)
    assert whole.no_deeper_than(0) == Proposal(tokens=(), parents=())
    assert whole.no_deeper_than(9) == whole


@pytest.mark.parametrize("backend", ["reference", "triton"])
def test_a_node_has_the_bits_it_has_at_the_end_of_its_own_chain(
    tiny: TinyModels, bench: Bench, backend: str
) -> None:
    loaded = bench.pool.target(str(tiny.target()), "fp32", "cpu:0", lambda what, part: None)
    tokens, start = [7, 11, 12, 13, 14, 15, 16, 17], 21
    prompt = torch.tensor([(5 * i) % 90 for i in range(start)])
    whole = opened(loaded, backend)
    whole.prefill(prompt, 0, ())

    out = whole.rows(tokens, start, (1, 2), logits=True, parents=TREE)

    assert out.features_RF is not None
    for row, path in enumerate(
        [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 1, 3, 6], [0, 1, 3, 6, 7]]
    ):
        chain = opened(loaded, backend)
        chain.prefill(prompt, 0, ())
        alone = chain.rows([tokens[i] for i in path], start, (1, 2), logits=True)
        assert alone.features_RF is not None
        assert out.logits_RV is not None
        assert alone.logits_RV is not None
        assert torch.equal(out.logits_RV[row], alone.logits_RV[len(path) - 1])
        assert torch.equal(out.features_RF[row], alone.features_RF[len(path) - 1])


def opened(loaded: LoadedModel, backend: str) -> Passes:
    kv = KvCache.of(loaded.model.config, n_slots=64, dtype=torch.float32, device="cpu")
    if backend == "reference":
        return ReferencePasses(loaded.model, kv)
    passes = StreamedPasses(StreamedModel(loaded.model), kv)
    passes.prefill = ReferencePasses(loaded.model, kv).prefill  # type: ignore[method-assign]
    return passes
