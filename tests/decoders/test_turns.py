"""Turn after turn on one lane: what is reused, and that it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_models import TinyModels

from specmon.core.drafters.scripted import Step
from specmon.core.errors import UsageError

from .harness import Bench, BenchLane, Decoded

DECODERS = ("ar", "sd", "ssd")
DRAFTS = ("draft_model", "eagle3", "ngram", "scripted:0.6")
Conversation = list[tuple[str, str]]


def lanes(
    tiny: TinyModels, bench: Bench, *, target: Path | None = None, recipe: str = "fp32"
) -> list[BenchLane]:
    """AR, SD and SSD with every drafter, then SD with the one that SSD cannot have."""
    target = target or tiny.target()
    folders = {
        "draft_model": str(tiny.draft()),
        "eagle3": str(tiny.eagle3()),
        "hybrid": f"hybrid:{tiny.eagle3()}",
    }
    speculative = [
        bench.lane(target, decoder, draft=folders.get(draft, draft), fan_out=(2,), recipe=recipe)
        for decoder in ("sd", "ssd")
        for draft in DRAFTS
    ]
    block = bench.lane(target, "sd", draft=str(tiny.block()), recipe=recipe)
    return [bench.lane(target, recipe=recipe), *speculative, block]


def assert_agree(found: list[Decoded]) -> None:
    assert {tuple(d.tokens) for d in found} == {tuple(found[0].tokens)}
    assert {d.turn.reused_tokens for d in found} == {found[0].turn.reused_tokens}


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
def test_unrelated_request_leaves_no_trace(tiny: TinyModels, bench: Bench, recipe: str) -> None:
    for lane in lanes(tiny, bench, recipe=recipe):
        fresh = lane.decode("the rat ran to the hat", max_new_tokens=10).tokens
        lane.decode("0123456789" * 6, max_new_tokens=10)

        assert lane.decode("the rat ran to the hat", max_new_tokens=10).tokens == fresh


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
def test_conversation_reuses_kv_and_agrees(tiny: TinyModels, bench: Bench, recipe: str) -> None:
    everyone = lanes(tiny, bench, recipe=recipe)
    conversation: Conversation = []
    held = 0
    for message in ("the cat", "and then", "0 1 2"):
        conversation.append(("user", message))

        found = [lane.decode(conversation, max_new_tokens=9) for lane in everyone]

        assert_agree(found)
        assert (found[0].turn.reused_tokens > 0) == (held > 0)
        held = found[0].turn.prompt_tokens
        conversation.append(("assistant", found[0].text))


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("more", [1, 2, 4, 7])
def test_generated_tokens_are_reused(tiny: TinyModels, bench: Bench, more: int) -> None:
    everyone = lanes(tiny, bench, target=tiny.with_words(tiny.target()))
    first = [lane.decode("t9 t8 t7", raw=True, max_new_tokens=more) for lane in everyone]

    second = [lane.decode(f"t9 t8 t7 {first[0].text} t6 t5", raw=True, max_new_tokens=6) for lane in everyone]

    assert_agree(first)
    assert_agree(second)
    assert second[0].turn.prompt_tokens == 3 + more + 2
    assert second[0].turn.reused_tokens == 3 + more - 2  # the last token has no KV, one more is run again


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
@pytest.mark.parametrize("more", range(2, 9))
def test_drafter_follows_what_it_did_not_propose(
    tiny: TinyModels, bench: Bench, more: int, decoder: str
) -> None:
    """Every draft is accepted whole, so turns end with tokens whose features the EAGLE-3 head has not taken in."""
    target = tiny.with_words(tiny.target())
    for inner in (tiny.eagle3(), tiny.draft()):
        lane = bench.scripted(target, decoder, [Step(4, covered=True)], tiny.vocab_size, inner=inner)
        first = lane.decode("t9 t8 t7", raw=True, max_new_tokens=more)

        second = lane.decode(f"t9 t8 t7 {first.text} t6 t5", raw=True, max_new_tokens=6)

        assert second.turn.reused_tokens == 3 + more - 2
        assert max(first.accepted) > 0


@pytest.mark.usefixtures("poisoned")
def test_prompt_longer_than_a_chunk_agrees(tiny: TinyModels, bench: Bench) -> None:
    prompt = "the cat sat on the mat 0123456789" * 26

    found = [lane.decode(prompt, max_new_tokens=6) for lane in lanes(tiny, bench)]

    assert_agree(found)
    chunks = [(c.start, c.length) for c in found[0].prefill.chunks]
    assert chunks[0] == (0, 256)
    assert len(chunks) > 1


@pytest.mark.usefixtures("poisoned")
def test_one_token_prompt_agrees(tiny: TinyModels, bench: Bench) -> None:
    found = [lane.decode("x", raw=True, max_new_tokens=12) for lane in lanes(tiny, bench)]

    assert_agree(found)
    assert found[0].turn.prompt_tokens == 1


@pytest.mark.parametrize("prompt", ["", " ", "\n\t"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_empty_prompt_is_refused(tiny: TinyModels, bench: Bench, decoder: str, prompt: str) -> None:
    lane = bench.lane(tiny.target(), decoder)

    with pytest.raises(UsageError, match=r"^The prompt is empty\."):
        lane.decode(prompt)


def test_ar_steps_are_measured_without_changing_the_text(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.lane(tiny.target())
    conversation: Conversation = [("user", "the cat")]
    first = lane.decode(conversation)

    kv_len, step_ns = lane.lane.measure_ar(3)

    assert kv_len == first.rounds[-1].kv_len[0]
    assert step_ns > 0
    conversation += [("assistant", first.text), ("user", "more")]
    other = bench.lane(tiny.target())
    other.decode(conversation[:1])
    assert lane.decode(conversation).tokens == other.decode(conversation).tokens
