"""Turns end where AR's would, wherever inside a draft that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_models import TinyModels

from specmon.core.drafters.scripted import Step
from specmon.core.engine.messages import Request
from specmon.core.errors import UsageError

from .harness import Bench, BenchLane, never

ALL_RIGHT = [Step(4, covered=True)]
MIXED = [Step(4, covered=True), Step(1, covered=False), Step(0, covered=True)]
DECODERS = ("sd", "ssd")


def speculative(tiny: TinyModels, bench: Bench, target: Path, decoder: str, steps: list[Step]) -> BenchLane:
    return bench.scripted(target, decoder, steps, tiny.vocab_size)


@pytest.mark.parametrize("at", range(1, 10))
@pytest.mark.parametrize("decoder", DECODERS)
def test_eos_ends_the_turn_anywhere_in_a_draft(tiny: TinyModels, bench: Bench, decoder: str, at: int) -> None:
    free = bench.lane(tiny.target()).decode().tokens
    target = tiny.with_eos(tiny.target(), free[at])
    ar = bench.lane(target).decode()

    found = speculative(tiny, bench, target, decoder, ALL_RIGHT).decode()

    assert found.tokens == ar.tokens == free[: free.index(free[at]) + 1]
    assert found.end.stop_reason == ar.end.stop_reason == "eos"


@pytest.mark.parametrize("decoder", ["ar", *DECODERS])
def test_a_request_may_name_further_tokens_that_end_its_turn(
    tiny: TinyModels, bench: Bench, decoder: str
) -> None:
    free = bench.lane(tiny.target()).decode().tokens
    lane = bench.lane(tiny.target(), decoder, draft="scripted:1.0")

    found = lane.decode(eos_ids=(free[5],))

    assert found.tokens == free[: free.index(free[5]) + 1]
    assert found.end.stop_reason == "eos"
    assert lane.decode().tokens == free


@pytest.mark.parametrize("decoder", DECODERS)
def test_kept_drafted_eos_has_no_bonus(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    free = bench.lane(tiny.target()).decode().tokens
    target = tiny.with_eos(tiny.target(), free[2])  # token one, then d1, d2 = EOS

    (only,) = speculative(tiny, bench, target, decoder, ALL_RIGHT).decode().rounds

    assert (only.accepted_len, only.emitted, only.bonus) == (2, tuple(free[1:3]), None)


@pytest.mark.parametrize("decoder", DECODERS)
def test_accepted_len_counts_past_a_stop(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    itself = str(tiny.target())
    lane = bench.lane(itself, decoder, draft=itself, recipe="bf16")

    (only,) = lane.decode(max_new_tokens=3).rounds

    assert (only.accepted_len, len(only.emitted), only.bonus) == (4, 2, None)


def test_eos_as_token_one_leaves_no_round(tiny: TinyModels, bench: Bench) -> None:
    free = bench.lane(tiny.target()).decode().tokens
    target = tiny.with_eos(tiny.target(), free[0])

    found = speculative(tiny, bench, target, "ssd", ALL_RIGHT).decode()

    assert (found.tokens, found.rounds, found.end.stop_reason) == ([free[0]], [], "eos")


@pytest.mark.parametrize("max_new_tokens", range(1, 13))
@pytest.mark.parametrize("decoder", DECODERS)
def test_max_new_tokens_is_exact(tiny: TinyModels, bench: Bench, decoder: str, max_new_tokens: int) -> None:
    lane = speculative(tiny, bench, tiny.target(), decoder, MIXED)

    found = lane.decode(max_new_tokens=max_new_tokens)

    assert found.tokens == bench.lane(tiny.target()).decode().tokens[:max_new_tokens]
    assert found.end.stop_reason == "length"


@pytest.mark.parametrize("decoder", ["ar", *DECODERS])
def test_stop_string_that_spans_tokens_is_cut_off(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    whole = bench.lane(tiny.target()).decode(max_new_tokens=40).text
    stop = whole[10:16]
    lane = (
        speculative(tiny, bench, tiny.target(), decoder, MIXED)
        if decoder != "ar"
        else bench.lane(tiny.target())
    )

    found = lane.decode(max_new_tokens=40, stop_strings=(stop, "never said"))

    assert len(found.tokens) < 40
    assert found.text == whole[: whole.index(stop)]
    assert found.end.stop_reason == "stop"


def test_unfinished_stop_string_is_given_back(tiny: TinyModels, bench: Bench) -> None:
    whole = bench.lane(tiny.target()).decode().text

    found = bench.lane(tiny.target()).decode(stop_strings=(whole[-4:] + "\x00never",))

    assert found.text == whole
    assert found.end.text.startswith(whole[-4:])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("draft", ["scripted", "draft_model", "eagle3", "ngram", "suffix"])
def test_context_fills_up_while_decoding(tiny: TinyModels, bench: Bench, decoder: str, draft: str) -> None:
    target = tiny.variant(tiny.target(), "short", max_position_embeddings=48)
    folders = {"draft_model": str(tiny.draft()), "eagle3": str(tiny.eagle3())}
    ar = bench.lane(target).decode(max_new_tokens=1000)
    lane = (
        speculative(tiny, bench, target, decoder, MIXED)
        if draft == "scripted"
        else bench.lane(target, decoder, draft=folders.get(draft, draft))
    )

    found = lane.decode(max_new_tokens=1000)

    assert found.tokens == ar.tokens
    assert found.end.stop_reason == ar.end.stop_reason == "context"
    assert found.turn.prompt_tokens + found.end.n_tokens == 48


@pytest.mark.parametrize("decoder", ["ar", *DECODERS])
def test_prompt_as_long_as_the_context_allows_decodes(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    target = tiny.variant(tiny.target(), "short", max_position_embeddings=48)
    lane = bench.lane(target, decoder, draft=str(tiny.draft()))

    found = lane.decode("0" * 47, raw=True)

    assert found.turn.prompt_tokens == 47
    assert found.end.stop_reason == "context"
    assert found.end.n_tokens == 1
    assert found.tokens == bench.lane(target).decode("0" * 47, raw=True).tokens


@pytest.mark.parametrize("decoder", ["ar", *DECODERS])
def test_prompt_longer_than_the_context_is_refused(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    target = tiny.variant(tiny.target(), "short", max_position_embeddings=48)
    lane = bench.lane(target, decoder, draft=str(tiny.draft()))

    with pytest.raises(UsageError, match=r"^The prompt has 48 tokens; .* takes 47 here\."):
        lane.decode("0" * 48, raw=True)

    assert lane.decode("0" * 40, raw=True).tokens  # the lane still works


@pytest.mark.parametrize("decoder", ["ar", *DECODERS])
def test_cancelled_turn_keeps_its_tokens_and_the_next_one_is_whole(
    tiny: TinyModels, bench: Bench, decoder: str
) -> None:
    lane = bench.lane(tiny.target(), decoder, draft=str(tiny.draft()))
    asked = iter([False, False, False, True])

    cut = lane.decode(cancelled=lambda: next(asked))
    after = lane.decode()

    whole = bench.lane(tiny.target()).decode()
    assert (cut.end.stop_reason, len(cut.rounds)) == ("cancelled", 3)
    assert cut.tokens == whole.tokens[: len(cut.tokens)]
    assert after.tokens == whole.tokens


@pytest.mark.parametrize("decoder", DECODERS)
def test_abandoned_turn_leaves_the_lane_usable(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    lane = bench.lane(tiny.target(), decoder, draft=str(tiny.eagle3()))
    whole = bench.lane(tiny.target()).decode()
    request = Request(messages=(("user", "the cat sat"),), max_new_tokens=24)
    for n_events in (1, 3, 4, 7):
        events = lane.lane.generate(request, lane=0, turn=n_events, cancelled=never)
        for _ in range(n_events):
            next(events)
        events.close()  # type: ignore[attr-defined]

        assert BenchLane(lane.lane).decode().tokens == whole.tokens
