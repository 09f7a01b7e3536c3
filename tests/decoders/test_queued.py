"""Rounds that the target's device runs by itself: AR's tokens, true events, turns that end in every way.

On two GPUs all of it is real. Without one the kernels are interpreted: queueing a round runs it, and it waits for the draft
worker's process as a GPU would, so that everything but the overlap is real.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.decoders.lane import DecodeLane
from specmon.core.drafters.link import WorkerLink
from specmon.core.drafters.scripted import Step
from specmon.core.drafters.shared_board import SharedBoard
from specmon.core.engine.messages import Request
from specmon.core.errors import SpecmonError
from specmon.core.events import Prefill, Round
from specmon.core.models.streamed import StreamedModel, StreamedPasses

from .harness import Bench, BenchLane

GPUS = torch.cuda.device_count()
pytestmark = [pytest.mark.gpu2, pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")] if GPUS else []
SETTINGS = {"devices": "cuda:0,cuda:1", "recipe": "bf16"} if GPUS else {"devices": "cpu:0,cpu:1"}
ONE = SETTINGS | {"devices": SETTINGS["devices"].split(",")[0]}

K = 3
STEPS = [Step(K, True), Step(0, True), Step(2, False), Step(1, True, 2), Step(K, False), Step(0, True, 3)]


def queue_rounds(lane: DecodeLane) -> DecodeLane:
    """Let the target's rows go through the Triton kernels, rounds one after another; prompts stay in torch."""
    if GPUS:
        assert lane._queued is not None
        return lane
    link, target = lane._link, lane._target
    prefill = target._passes.prefill
    target._passes = StreamedPasses(StreamedModel(target.model), target.kv)
    target._passes.prefill = prefill  # type: ignore[method-assign]
    if link is None:
        lane._queued = target.queued_rounds(SharedBoard())
        return lane
    assert isinstance(link, WorkerLink)
    taps = link.info.tap_layers
    lane._queued = target.queued_rounds(link.board(len(taps) * target.model.config.hidden_size), taps)
    return lane


@pytest.fixture(scope="module")
def own(tiny: TinyModels) -> Iterator[Bench]:
    made = Bench(tiny.root)
    yield made
    made.close()


@pytest.fixture(scope="module")
def ar(own: Bench, tiny: TinyModels) -> BenchLane:
    """Whose rounds the host runs."""
    made = own.lane(shallow(tiny), **ONE)
    made.lane._queued = None
    return made


@pytest.fixture(scope="module")
def queued_ar(own: Bench, tiny: TinyModels) -> BenchLane:
    made = own.lane(shallow(tiny), **ONE)
    queue_rounds(made.lane)
    return made


def shallow(tiny: TinyModels) -> Path:
    """A target of one layer: what is tested here lies between its passes."""
    return tiny.with_words(tiny.variant(tiny.target(), "shallow", num_hidden_layers=1))


def scripted(own: Bench, tiny: TinyModels, decoder: str) -> BenchLane:
    """A scripted drafter in a worker, with every kind of outcome."""
    lane = own.scripted(
        shallow(tiny),
        decoder,
        STEPS,
        vocab_size=90,
        draft_len=K,
        fan_out=(4,),
        **SETTINGS,
    )
    queue_rounds(lane.lane)
    return lane


@pytest.fixture(scope="module")
def ssd(own: Bench, tiny: TinyModels) -> BenchLane:
    return scripted(own, tiny, "ssd")


def decode(lane: BenchLane, **asked: Any) -> Any:
    return lane.decode("t9 t8 t7", raw=True, **{"max_new_tokens": 9, **asked})


def test_tokens_are_those_of_ar(ar: BenchLane, ssd: BenchLane) -> None:
    found = decode(ssd)

    assert found.tokens == decode(ar).tokens
    plan = STEPS[: len(found.rounds)]
    assert [r.accepted_len for r in found.rounds[: len(plan) - 1]] == [s.accepted for s in plan[:-1]]
    assert [r.hit is not None for r in found.rounds[: len(plan) - 1]] == [s.covered for s in plan[:-1]]


def test_sd_drafts_after_every_outcome(own: Bench, tiny: TinyModels, ar: BenchLane) -> None:
    found = decode(scripted(own, tiny, "sd"))

    assert found.tokens == decode(ar).tokens
    assert [r.accepted_len for r in found.rounds[:3]] == [s.accepted for s in STEPS[:3]]
    for round_ in found.rounds:
        assert (round_.hit, round_.miss, round_.branches) == (None, None, ())
        assert [span.kind for span in round_.spans if span.device == 1 and span.kind != "prefill"] == [
            "draft"
        ]


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_a_head_drafts_from_the_features_on_the_board(own: Bench, tiny: TinyModels, decoder: str) -> None:
    """What it drafts is what it drafts where the host hands its features over."""
    settings = SETTINGS | {"draft": str(tiny.eagle3()), "draft_len": K, "fan_out": (2,)}
    lane, by_host = (own.lane(tiny.with_words(tiny.target()), decoder, **settings) for _ in range(2))
    queue_rounds(lane.lane)
    by_host.lane._queued = None

    found, want = (decode(made, max_new_tokens=6) for made in (lane, by_host))

    assert found.tokens == want.tokens
    assert [r.draft for r in found.rounds] == [r.draft for r in want.rounds]
    assert [r.hit for r in found.rounds] == [r.hit for r in want.rounds]
    assert len({r.draft for r in found.rounds}) > 2


def test_a_round_says_where_its_draft_came_from(ssd: BenchLane) -> None:
    rounds = decode(ssd).rounds
    for before, after in pairwise(rounds):
        kinds = {span.kind for span in after.spans if span.for_round == after.index}
        assert ("draft" in kinds) == (before.hit is None)
        assert {"verify"} <= kinds
        assert after.t0 == before.t1
        if before.hit is not None:
            branch = before.branches[before.hit]
            assert (branch.accepted_len, branch.bonus) == (before.accepted_len, before.bonus)
            assert branch.tokens == after.draft


@pytest.mark.parametrize("n_tokens", [1, 4, 7])
def test_turns_of_any_length_end_where_ar_ends(ar: BenchLane, ssd: BenchLane, n_tokens: int) -> None:
    found, want = (decode(lane, max_new_tokens=n_tokens) for lane in (ssd, ar))

    assert found.tokens == want.tokens
    assert (found.end.stop_reason, found.end.n_tokens) == ("length", n_tokens)


def test_a_stop_string_ends_what_is_queued(ar: BenchLane, ssd: BenchLane) -> None:
    stop = decode(ar).text.split()[4]
    found, want = (decode(lane, stop_strings=(stop,)) for lane in (ssd, ar))

    assert (found.text, found.end.stop_reason) == (want.text, "stop")
    assert decode(ssd).tokens == decode(ar).tokens


def test_a_conversation_goes_on_after_a_turn_was_cancelled_or_dropped(ar: BenchLane, ssd: BenchLane) -> None:
    asked = iter([False, False, True])
    decode(ssd, cancelled=lambda: next(asked))
    dropped = ssd.lane.generate(
        Request(messages=(("user", "t9 t8 t7"),), raw=True, max_new_tokens=9),
        lane=0,
        turn=99,
        cancelled=lambda: False,
    )
    assert any(isinstance(event, Round) for event in dropped)
    dropped.close()

    assert decode(ssd).tokens == decode(ar).tokens


def test_nothing_is_under_way_in_a_pause(ar: BenchLane, ssd: BenchLane) -> None:
    lane, tokens = ssd.lane, []
    assert lane._queued is not None
    request = Request(messages=(("user", "t9 t8 t7"),), raw=True, max_new_tokens=9)
    for event in lane.generate(request, lane=0, turn=97, cancelled=lambda: False):
        if isinstance(event, Prefill):
            tokens.append(event.token_one)
            lane.pause_after_round()
        if isinstance(event, Round):
            tokens += event.emitted
            assert lane._queued._under_way == []
            lane.resume()
            lane.pause_after_round()

    assert tokens == list(decode(ar).tokens)


@pytest.mark.parametrize("context_length", [14, 16])
def test_the_context_runs_full(
    monkeypatch: pytest.MonkeyPatch, ar: BenchLane, ssd: BenchLane, context_length: int
) -> None:
    for lane in (ar, ssd):
        short = replace(lane.lane._loaded, context_length=context_length)
        monkeypatch.setattr(lane.lane, "_loaded", short)
    found, want = (decode(lane, max_new_tokens=100) for lane in (ssd, ar))

    assert found.end.stop_reason == want.end.stop_reason == "context"
    assert found.tokens == want.tokens


def test_a_worker_that_dies_is_said_and_replaced(ar: BenchLane, ssd: BenchLane) -> None:
    link = ssd.lane._link
    assert isinstance(link, WorkerLink)
    request = Request(messages=(("user", "t9 t8 t7"),), raw=True, max_new_tokens=9)
    turn = ssd.lane.generate(request, lane=0, turn=98, cancelled=lambda: False)
    assert any(isinstance(event, Round) for event in turn)
    link._process.kill()
    link._process.join()
    queued = ssd.lane._queued
    assert queued is not None
    patience, queued._relay._patience = queued._relay._patience, 100  # interpreted, it would look for minutes

    with pytest.raises(SpecmonError, match="draft worker"):
        list(turn)

    queued._relay._patience = patience
    assert decode(ssd).tokens == decode(ar).tokens


@pytest.mark.parametrize("n_tokens", [1, 2, 9])
def test_rounds_of_ar_are_those_the_host_runs(ar: BenchLane, queued_ar: BenchLane, n_tokens: int) -> None:
    found, want = (decode(lane, max_new_tokens=n_tokens) for lane in (queued_ar, ar))

    assert (found.tokens, found.text, found.end.stop_reason) == (want.tokens, want.text, "length")
    assert [(r.emitted, r.bytes, r.kv_len) for r in found.rounds] == [
        (r.emitted, r.bytes, r.kv_len) for r in want.rounds
    ]
    assert all(after.t0 == before.t1 for before, after in pairwise(found.rounds))


def test_ar_stops_pauses_and_goes_on(ar: BenchLane, queued_ar: BenchLane) -> None:
    stop = decode(ar).text.split()[4]
    found, want = (decode(lane, stop_strings=(stop,)) for lane in (queued_ar, ar))
    assert (found.text, found.end.stop_reason) == (want.text, "stop")

    asked = iter([False, False, True])
    assert decode(queued_ar, cancelled=lambda: next(asked)).end.stop_reason == "cancelled"
    assert decode(queued_ar).tokens == decode(ar).tokens


def test_sampling_is_left_to_the_host(ar: BenchLane, ssd: BenchLane) -> None:
    from specmon.core.events import Sampling

    warm = Sampling(temperature=0.8)
    found, want = (decode(lane, sampling=warm, seed=3) for lane in (ssd, ar))

    assert found.tokens == want.tokens
