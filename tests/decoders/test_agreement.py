"""Inside a recipe every decoder emits AR's tokens, whatever drafts for it."""

from __future__ import annotations

import pytest
from tests.tiny_models import FAMILIES, TinyModels

from specmon.core.drafters import hybrid
from specmon.core.events import Sampling

from .harness import Bench, Decoded

DRAFTERS = ("draft_model", "stranger", "eagle3", "ngram", "suffix", "hybrid", "hybrid-eagle3", "scripted:0.7")
SAMPLINGS = (
    Sampling(temperature=0.8),
    Sampling(temperature=0.8, top_k=20),
    Sampling(temperature=1.2, top_p=0.9),
    Sampling(temperature=0.7, top_k=50, top_p=0.95),
)
REPETITIVE = "the cat sat on the mat and the cat sat on the mat and the cat"
EMBEDDED_PROMPT = "Write a Python function that merges two sorted lists."


def draft_name(tiny: TinyModels, drafter: str, family: str) -> str:
    folders = {"draft_model": tiny.draft, "eagle3": tiny.eagle3}
    if drafter in folders:
        return str(folders[drafter](family))
    if drafter.startswith("hybrid"):
        return f"hybrid:{(tiny.eagle3 if drafter.endswith('eagle3') else tiny.draft)(family)}"
    return str(tiny.stranger()) if drafter == "stranger" else drafter


def assert_same_turn(found: Decoded, ar: Decoded) -> None:
    assert found.tokens == ar.tokens
    assert found.text == ar.text
    assert found.end.stop_reason == ar.end.stop_reason


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_decoder_emits_ar_tokens_for_every_drafter(
    tiny: TinyModels, bench: Bench, decoder: str, drafter: str, recipe: str
) -> None:
    target = tiny.target("llama")
    lane = bench.lane(
        target, decoder, draft=draft_name(tiny, drafter, "llama"), recipe=recipe, fan_out=(3, 2, 1, 1, 2)
    )

    found = lane.decode(REPETITIVE)

    assert_same_turn(found, bench.lane(target, recipe=recipe).decode(REPETITIVE))


@pytest.mark.embedded  # its tokenizer
def test_tokens_are_ar_s_in_bf16_at_widths_of_a_real_model(embedded_bench: Bench) -> None:
    """The library sums one row of more than 1,024 inputs in another order than several rows."""
    target, recipe = "random:smollm2-135m", "bf16"
    found = embedded_bench.lane(target, "sd", draft="scripted:0.7", recipe=recipe).decode(max_new_tokens=48)

    assert_same_turn(found, embedded_bench.lane(target, recipe=recipe).decode(max_new_tokens=48))
    assert sum(round_.accepted_len for round_ in found.rounds) > 16


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
@pytest.mark.parametrize("family", FAMILIES)
def test_decoder_emits_ar_tokens_for_every_family(
    tiny: TinyModels, bench: Bench, family: str, decoder: str, recipe: str
) -> None:
    target = tiny.target(family)
    lane = bench.lane(target, decoder, draft=str(tiny.draft(family)), recipe=recipe)

    found = lane.decode()

    assert_same_turn(found, bench.lane(target, recipe=recipe).decode())
    assert max(found.accepted) > 0  # the draft is good enough for the comparison to mean something


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("drafter", ["draft_model", "eagle3", "ngram", "hybrid"])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_decoder_emits_ar_tokens_for_4_bit_weights(
    tiny: TinyModels, bench: Bench, decoder: str, drafter: str
) -> None:
    target = tiny.gguf("qwen2", "Q4_1")
    lane = bench.lane(target, decoder, draft=draft_name(tiny, drafter, "qwen2"), recipe="q4")

    found = lane.decode(REPETITIVE)

    assert_same_turn(found, bench.lane(target, recipe="q4").decode(REPETITIVE))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_sampled_decoder_draws_ar_tokens(
    tiny: TinyModels, bench: Bench, decoder: str, sampling: Sampling
) -> None:
    target = tiny.target("qwen2")
    lane = bench.lane(target, decoder, draft=str(tiny.draft("qwen2")))

    found = lane.decode(sampling=sampling, seed=11)

    assert_same_turn(found, bench.lane(target).decode(sampling=sampling, seed=11))


@pytest.mark.parametrize("drafter", ["suffix", "hybrid"])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_drafts_of_any_length_draw_ar_tokens(
    tiny: TinyModels, bench: Bench, decoder: str, drafter: str
) -> None:
    target = tiny.target("qwen2")
    lane = bench.lane(target, decoder, draft=draft_name(tiny, drafter, "qwen2"), fan_out=(2,))
    asked = {"sampling": Sampling(temperature=0.4), "seed": 5, "max_new_tokens": 60}

    found = lane.decode(REPETITIVE, **asked)

    assert_same_turn(found, bench.lane(target).decode(REPETITIVE, **asked))


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("model", ["draft_model", "eagle3"])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_hybrid_that_changes_hands_emits_ar_tokens(
    tiny: TinyModels, bench: Bench, decoder: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid, "LEAST_MATCH", 1)
    monkeypatch.setattr(hybrid, "LEAST_CHANCE", 0.0)
    target, draft = tiny.target("llama"), draft_name(tiny, model, "llama")
    lane = bench.lane(target, decoder, draft=f"hybrid:{draft}", draft_len=2, fan_out=(2, 1, 2))

    found = lane.decode(REPETITIVE, max_new_tokens=100)

    assert_same_turn(found, bench.lane(target).decode(REPETITIVE, max_new_tokens=100))
    assert {r.drafter for r in found.rounds} == {"suffix", model}


def test_sampled_text_depends_on_the_seed(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.lane(tiny.target())
    hot = Sampling(temperature=1.5)

    texts = [lane.decode(sampling=hot, seed=seed).tokens for seed in (0, 1, 0)]

    assert texts[0] == texts[2] != texts[1]


def test_rejections_never_read_stale_features(tiny: TinyModels, bench: Bench) -> None:
    target, head = tiny.target(), str(tiny.eagle3())
    wide = (150, 0, 0)  # the whole of the head's vocabulary: every rejection of its first token hits

    found = bench.lane(target, "ssd", draft=head, draft_len=2, fan_out=wide).decode()

    assert_same_turn(found, bench.lane(target).decode())
    assert any(r.hit is not None for r in found.rounds)


@pytest.fixture(scope="module")
def embedded_ar(_embedded_pool: Bench) -> Decoded:
    return _embedded_pool.lane("smollm2", recipe="q4").decode(EMBEDDED_PROMPT, max_new_tokens=12)


@pytest.mark.embedded
@pytest.mark.parametrize(
    "drafter", ["smollm2-draft-17m", "smollm2-eagle3", "ngram", "suffix", "hybrid", "hybrid:eagle3"]
)
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_embedded_decoder_emits_ar_tokens(
    embedded_bench: Bench, embedded_ar: Decoded, decoder: str, drafter: str
) -> None:
    lane = embedded_bench.lane("smollm2", decoder, draft=drafter, recipe="q4", fan_out=(2, 1, 1, 1, 2))

    found = lane.decode(EMBEDDED_PROMPT, max_new_tokens=12)

    assert_same_turn(found, embedded_ar)
