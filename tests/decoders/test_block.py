"""SD with a block drafter: AR's tokens, greedy and sampled, chain and tree; what it learnt by heart is accepted."""

from __future__ import annotations

from pathlib import Path
from statistics import mode
from typing import Any

import pytest
import torch
from tests.tiny_models import FAMILIES, TinyModels

from specmon.core.events import Sampling
from specmon.core.models.hf_folder import HfFolder
from specmon.core.training.block import BlockLearner
from specmon.core.training.corpus import Batch
from specmon.core.training.export import export
from specmon.core.training.forms import frozen_decoder

from .harness import Bench, BenchLane

PROMPT = "the cat sat on the mat and the cat sat on the mat"
BLOCK_LEN = 6
CHI_SQUARE_3_DOF = 16.3  # exceeded once in a thousand


def sd(tiny: TinyModels, bench: Bench, family: str = "llama", **config: Any) -> BenchLane:
    settings = {"draft": str(tiny.block(family)), "draft_len": 4, **config}
    return bench.lane(tiny.target(family), "sd", **settings)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_ar(tiny: TinyModels, bench: Bench, family: str, recipe: str) -> None:
    found = sd(tiny, bench, family, recipe=recipe).decode(PROMPT, max_new_tokens=40)

    ar = bench.lane(tiny.target(family), recipe=recipe).decode(PROMPT, max_new_tokens=40)
    assert found.tokens == ar.tokens
    assert {len(r.draft) for r in found.rounds[:-4]} == {4}


@pytest.mark.parametrize("draft_len", [1, 6, 15])
def test_a_draft_is_no_longer_than_the_block(tiny: TinyModels, bench: Bench, draft_len: int) -> None:
    lane = sd(tiny, bench, draft_len=draft_len)
    found = lane.decode(PROMPT, max_new_tokens=40)

    told = ("A draft of block-llama-6 has at most 6 tokens, not 15.",) if draft_len > BLOCK_LEN else ()
    assert lane.lane.notes == told
    assert found.tokens == bench.lane(tiny.target()).decode(PROMPT, max_new_tokens=40).tokens
    assert max(len(r.draft) for r in found.rounds) == min(draft_len, BLOCK_LEN)


@pytest.mark.parametrize("n_nodes", [0, 15])
def test_context_fills_up_while_decoding(tiny: TinyModels, bench: Bench, n_nodes: int) -> None:
    target = tiny.variant(tiny.target(), "short", max_position_embeddings=48)
    config = {"draft": str(tiny.block()), "draft_len": 6, "draft_nodes": n_nodes}

    found = bench.lane(target, "sd", **config).decode(max_new_tokens=1000)

    assert found.tokens == bench.lane(target).decode(max_new_tokens=1000).tokens
    assert found.end.stop_reason == "context"


def test_weights_of_8_bits_beside_a_target_of_4(tiny: TinyModels, bench: Bench) -> None:
    target = tiny.gguf("qwen2", "Q4_1")
    lane = bench.lane(target, "sd", draft=str(tiny.block("qwen2")), recipe="q4")

    assert lane.decode(PROMPT).tokens == bench.lane(target, recipe="q4").decode(PROMPT).tokens


@pytest.mark.parametrize("n_nodes", [0, 9])
def test_a_second_device_drafts_the_same(tiny: TinyModels, bench: Bench, n_nodes: int) -> None:
    one, two = (
        sd(tiny, bench, devices=devices, draft_nodes=n_nodes).decode(PROMPT)
        for devices in ("cpu:0", "cpu:0,cpu:1")
    )

    assert [(r.draft, r.parents) for r in one.rounds] == [(r.draft, r.parents) for r in two.rounds]


@pytest.mark.parametrize("n_nodes", [0, 15])
@pytest.mark.parametrize("sampling", [Sampling(temperature=0.8), Sampling(temperature=1.2, top_p=0.9)])
def test_sampling_draws_what_ar_draws(
    tiny: TinyModels, bench: Bench, sampling: Sampling, n_nodes: int
) -> None:
    asked = {"sampling": sampling, "seed": 11, "max_new_tokens": 40}

    found = sd(tiny, bench, draft_nodes=n_nodes).decode(PROMPT, **asked)

    assert found.tokens == bench.lane(tiny.target()).decode(PROMPT, **asked).tokens


@pytest.mark.parametrize("n_nodes", [0, 15])
def test_the_second_token_follows_the_target_s_distribution(
    tiny: TinyModels, bench: Bench, by_heart: Path, n_nodes: int
) -> None:
    """Token one comes of the prompt's pass; after the commonest, the next one is drawn in a round with a draft."""
    hot = Sampling(temperature=1.5, top_k=4)
    lane = sd(tiny, bench, draft=str(by_heart), draft_nodes=n_nodes)
    turns = [lane.decode(PROMPT, sampling=hot, seed=seed, max_new_tokens=2) for seed in range(400)]
    first = mode(turn.tokens[0] for turn in turns)
    seconds = [turn.tokens[1] for turn in turns if turn.tokens[0] == first]
    assert {turn.accepted[0] for turn in turns} >= {0, 1}

    probs = target_probs(bench, tiny, turns[0].turn.prompt_tokens, first, hot)
    counts = torch.tensor([seconds.count(token) for token in probs], dtype=torch.double)
    expected = torch.tensor(list(probs.values()), dtype=torch.double) * len(seconds)
    assert counts.sum() == len(seconds)
    assert float(((counts - expected) ** 2 / expected).sum()) < CHI_SQUARE_3_DOF


def target_probs(
    bench: Bench, tiny: TinyModels, n_prompt: int, first: int, sampling: Sampling
) -> dict[int, float]:
    """What may follow the prompt and `first`, by the target's own logits."""
    loaded = bench.pool.target(str(tiny.target()), "fp32", "cpu:0", lambda what, part: None)
    tokens = [*loaded.tokenizer.encode_chat((("user", PROMPT),)), first]
    assert len(tokens) == n_prompt + 1
    target = frozen_decoder(HfFolder(tiny.target()), torch.device("cpu"), torch.float32)
    ids = torch.tensor([tokens])
    with torch.no_grad():
        hidden, _ = target(ids, torch.ones(1, len(tokens), len(tokens), dtype=torch.bool).tril())
        top = (hidden[0, -1] @ target.head_VD.T / sampling.temperature).topk(sampling.top_k)
    return dict(zip(top.indices.tolist(), top.values.softmax(dim=-1).tolist(), strict=True))


@pytest.fixture(scope="module")
def by_heart(tiny: TinyModels, _pooled: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drafter that learnt the target's greedy answer to PROMPT by heart."""
    answer = _pooled.lane(tiny.target()).decode(PROMPT, max_new_tokens=40).tokens
    loaded = _pooled.pool.target(str(tiny.target()), "fp32", "cpu:0", lambda what, part: None)
    tokens = torch.tensor([[*loaded.tokenizer.encode_chat((("user", PROMPT),)), *answer]])
    everything = torch.ones_like(tokens, dtype=torch.bool)
    cpu = torch.device("cpu")
    target = frozen_decoder(HfFolder(tiny.target()), cpu, torch.float32)
    learner = BlockLearner(
        target.config,
        taps=(0, 1, 2),
        draft_ids=torch.arange(target.config.vocab_size),
        block_len=BLOCK_LEN,
        layers=2,
        accept_weight=0.0,
        device=cpu,
    )
    learner.begin(target, 1, Batch(tokens, torch.zeros_like(tokens), everything, everything))
    optimiser = torch.optim.AdamW(learner.module.parameters(), lr=3e-3)
    for step in range(300):
        batch = Batch(tokens, torch.zeros_like(tokens), everything, everything, turn=step)
        loss = learner.loss(target, batch)
        (loss.total / loss.n_places).backward()
        optimiser.step()
        optimiser.zero_grad()
    folder = tmp_path_factory.mktemp("by-heart")
    export(learner, folder, int8=False)
    return folder


@pytest.mark.parametrize(("n_nodes", "most"), [(0, 10), (9, 20)])
def test_what_was_learnt_by_heart_is_accepted(
    tiny: TinyModels, bench: Bench, by_heart: Path, n_nodes: int, most: int
) -> None:
    """The features of the round before are there in time and in their place, or nothing would be accepted.

    The target's own distributions are flat, so that 9 nodes are spent on breadth.
    """
    found = sd(tiny, bench, draft=str(by_heart), draft_nodes=n_nodes).decode(PROMPT, max_new_tokens=40)

    assert found.tokens == bench.lane(tiny.target()).decode(PROMPT, max_new_tokens=40).tokens
    assert len(found.rounds) <= most  # for 39 tokens


def test_a_turn_that_goes_on_drafts_what_a_fresh_one_does(
    tiny: TinyModels, bench: Bench, by_heart: Path
) -> None:
    lane = sd(tiny, bench, draft=str(by_heart))
    answer = lane.decode(PROMPT).text
    more = [("user", PROMPT), ("assistant", answer), ("user", "and then")]
    warm = lane.decode(more)

    cold = sd(tiny, bench, draft=str(by_heart)).decode(more)
    assert warm.turn.reused_tokens > cold.turn.reused_tokens == 0
    assert warm.tokens == cold.tokens
    assert [r.draft for r in warm.rounds] == [r.draft for r in cold.rounds]
