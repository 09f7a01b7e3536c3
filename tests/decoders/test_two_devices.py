"""The draft in a process of its own, at the same time as the target: same tokens, true times."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.tiny_models import TinyModels

from specmon.core.drafters.scripted import Step
from specmon.core.engine.messages import Request
from specmon.core.errors import SpecmonError
from specmon.core.events import Round

from .harness import Bench, BenchLane

DEVICES = "cpu:0,cpu:1"
PATTERN = [Step(4, covered=True), Step(0, covered=True), Step(2, covered=False), Step(1, covered=True)]


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What loading `apart` told."""
    return []


@pytest.fixture(scope="module")
def apart(tiny: TinyModels, said: list[str]) -> Iterator[BenchLane]:
    """SSD with a draft model on a second device; its worker takes seconds to start, so tests share it."""
    own = Bench(tiny.root)
    yield own.lane(
        tiny.with_words(tiny.target()),
        "ssd",
        draft=str(tiny.draft()),
        devices=DEVICES,
        fan_out=(2,),
        progress=lambda what, part: said.append(what),
    )
    own.close()


def test_ssd_on_two_devices_emits_ar_tokens(tiny: TinyModels, bench: Bench, apart: BenchLane) -> None:
    found = apart.decode("t9 t8 t7", raw=True, max_new_tokens=40)

    ar = bench.lane(tiny.with_words(tiny.target())).decode("t9 t8 t7", raw=True, max_new_tokens=40)
    assert found.tokens == ar.tokens
    assert max(found.accepted) > 0


@pytest.mark.usefixtures("apart")
def test_loading_tells_of_the_draft_in_its_own_process_too(tiny: TinyModels, said: list[str]) -> None:
    assert said.index(f"loading draft {tiny.draft()}") < said.index(f"loading {tiny.draft()}")


def test_conversation_on_two_devices_emits_ar_tokens(
    tiny: TinyModels, bench: Bench, apart: BenchLane
) -> None:
    ar = bench.lane(tiny.with_words(tiny.target()))
    first = [lane.decode("t1 t2", raw=True, max_new_tokens=9) for lane in (apart, ar)]

    second = [lane.decode(f"t1 t2 {first[0].text} t3", raw=True, max_new_tokens=9) for lane in (apart, ar)]

    assert second[0].tokens == second[1].tokens
    assert second[0].turn.reused_tokens == second[1].turn.reused_tokens == 9


def test_cancelled_turn_on_two_devices_leaves_the_worker_usable(
    tiny: TinyModels, bench: Bench, apart: BenchLane
) -> None:
    asked = iter([False, False, True])
    apart.decode("t9 t8 t7", raw=True, cancelled=lambda: next(asked))

    found = apart.decode("t9 t8 t7", raw=True)

    assert found.tokens == bench.lane(tiny.with_words(tiny.target())).decode("t9 t8 t7", raw=True).tokens


def test_a_turn_dropped_amid_a_round_leaves_no_answer_for_the_next(
    tiny: TinyModels, bench: Bench, apart: BenchLane
) -> None:
    asked = Request(messages=(("user", "t9 t8 t7"),), raw=True, max_new_tokens=24)
    for _ in range(3):
        dropped = apart.lane.generate(asked, lane=0, turn=99, cancelled=lambda: False)
        assert any(
            isinstance(event, Round) for event in dropped
        )  # told while the next round's branches are made
        dropped.close()

    found = apart.decode("t9 t8 t7", raw=True)

    assert found.tokens == bench.lane(tiny.with_words(tiny.target())).decode("t9 t8 t7", raw=True).tokens


def test_draft_device_prepares_branches_while_the_target_verifies(apart: BenchLane) -> None:
    found = apart.decode("t9 t8 t7", raw=True, max_new_tokens=40)

    spans = [(span.device, span.kind) for r in found.rounds for span in r.spans]
    assert {(0, "verify"), (0, "accept"), (1, "draft"), (1, "branch_draft")} <= set(spans)
    assert all(device == 0 for device, kind in spans if kind == "verify")
    assert [b.device for b in found.rounds[0].bytes] == [0, 1]


def test_scripted_patterns_hit_and_miss_on_two_devices(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.scripted(tiny.target(), "ssd", PATTERN, tiny.vocab_size, devices=DEVICES)

    found = lane.decode(max_new_tokens=40)

    assert found.tokens == bench.lane(tiny.target()).decode(max_new_tokens=40).tokens
    expected = [PATTERN[i % 4] for i in range(len(found.rounds) - 1)]
    assert found.accepted[:-1] == [step.accepted for step in expected]
    assert [r.hit is not None for r in found.rounds[:-1]] == [step.covered for step in expected]


def _kill_worker(apart: BenchLane) -> None:
    worker = apart.lane._link._process  # type: ignore[union-attr]
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(timeout=20)


def test_draft_worker_killed_in_a_turn_is_said_in_one_sentence(apart: BenchLane) -> None:
    asked = 0

    def kill_after_two_rounds() -> bool:
        nonlocal asked
        asked += 1
        if asked == 3:
            _kill_worker(apart)
        return False

    with pytest.raises(SpecmonError, match=r"^The draft worker was ended by SIGKILL"):
        apart.decode("t9 t8 t7", raw=True, cancelled=kill_after_two_rounds)


def test_draft_worker_killed_between_turns_is_started_again(apart: BenchLane) -> None:
    before = apart.decode("t9 t8 t7", raw=True).tokens
    _kill_worker(apart)

    assert apart.decode("t9 t8 t7", raw=True).tokens == before
