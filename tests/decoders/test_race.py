"""Lanes race on one machine: equal tokens, never two at once, and one failure ends one lane."""

from __future__ import annotations

from itertools import count, groupby, pairwise
from typing import Any

import pytest
from tests.tiny_models import TinyModels

from specmon.core.decoders.lane import DecodeLane
from specmon.core.decoders.race import MIN_ROUNDS, race
from specmon.core.drafters.base import Outcome, Proposal
from specmon.core.drafters.link import InlineLink
from specmon.core.drafters.ngram import NgramDrafter
from specmon.core.engine.messages import Request
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import Event, Header, Prefill, Round, Turn, TurnEnd

from .harness import Bench, assert_valid, clock, never

REQUEST = Request(messages=(("user", "the cat sat"),), max_new_tokens=48)


def run(lanes: list[DecodeLane], turn: int = 0, request: Request = REQUEST, **extra: Any) -> list[Event]:
    """One race's stream, headers included."""
    stream: list[Event] = [Header(t=0), *(lane.describe(i, clock()) for i, lane in enumerate(lanes))]
    stream += race(lanes, request, turn=turn, cancelled=extra.get("cancelled", never))
    assert_valid(stream)
    return stream


def tokens(stream: list[Event], lane: int) -> list[int | None]:
    own = [event for event in stream if event.lane == lane]
    ones = [event.token_one for event in own if isinstance(event, Prefill)]
    return [*ones, *(t for event in own if isinstance(event, Round) for t in event.emitted)]


def ends(stream: list[Event]) -> dict[int, TurnEnd]:
    return {event.lane: event for event in stream if isinstance(event, TurnEnd)}


@pytest.fixture
def three(tiny: TinyModels, bench: Bench) -> list[DecodeLane]:
    draft = str(tiny.draft())
    return [bench.raw_lane(tiny.target(), decoder, draft=draft) for decoder in ("ar", "sd", "ssd")]


class FailingDrafter(NgramDrafter):
    """Fails at its third draft."""

    drafts = 0

    def draft(self, draft_len: int) -> Proposal:
        self.drafts += 1
        if self.drafts == 3:
            raise SpecmonError("The draft device is gone.")
        return super().draft(draft_len)


class DeadLink(InlineLink):
    """Its drafter died after the lane was loaded and cannot be started again."""

    def revive(self) -> bool:
        raise SpecmonError("The draft worker died (exit code -9).")


class SilentDrafter(NgramDrafter):
    """Fails when a turn's context reaches it."""

    def commit(self, outcome: Outcome) -> None:
        raise SpecmonError("Nobody listens.")


@pytest.mark.parametrize("turn", [0, 1, 5])
def test_race_lanes_emit_equal_tokens(three: list[DecodeLane], turn: int) -> None:
    stream = run(three, turn)

    assert tokens(stream, 0) == tokens(stream, 1) == tokens(stream, 2)
    assert len(tokens(stream, 0)) == 48
    assert {end.stop_reason for end in ends(stream).values()} == {"length"}


def test_rounds_of_different_lanes_never_overlap(three: list[DecodeLane]) -> None:
    rounds = sorted((e for e in run(three) if isinstance(e, Round)), key=lambda round_: round_.t0)

    assert all(before.t1 <= after.t0 for before, after in pairwise(rounds))
    spans = sorted((s.start, s.end, r.lane) for r in rounds for s in r.spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans) if a[2] != b[2])


def test_lanes_take_turns_of_the_fewest_rounds(tiny: TinyModels, bench: Bench) -> None:
    ticks = count(0, 10_000_000)  # every look at the clock takes 10 ms
    lanes = [bench.raw_lane(tiny.target(), decoder, clock=lambda: next(ticks)) for decoder in ("ar", "sd")]

    order = [event.lane for event in run(lanes) if isinstance(event, Round)]

    turns = [len(list(group)) for _, group in groupby(order)]
    assert len(turns) > 4
    assert set(turns[:4]) == {MIN_ROUNDS}


def test_starting_order_rotates_with_the_turn(three: list[DecodeLane]) -> None:
    short = Request(messages=(("user", "the cat sat"),), max_new_tokens=2)

    firsts = [
        next(event.lane for event in run(three, turn, short) if isinstance(event, Prefill))
        for turn in range(4)
    ]

    assert firsts == [0, 1, 2, 0]


def test_second_race_starts_every_lane_from_the_same_history(three: list[DecodeLane]) -> None:
    first = run(three)
    three[1].forget()  # as after its drafter died
    second = run(three, 1)

    assert [event.reused_tokens for event in second if isinstance(event, Turn)] == [0, 0, 0]
    assert [tokens(second, lane) for lane in range(3)] == [tokens(first, lane) for lane in range(3)]


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_lane_whose_drafter_cannot_start_again_ends_alone(tiny: TinyModels, bench: Bench, turn: int) -> None:
    lanes = [
        bench.raw_lane(tiny.target(), "ar"),
        bench.raw_lane(tiny.target(), "sd", link=InlineLink(NgramDrafter(), clock)),
        bench.raw_lane(tiny.target(), "sd", link=DeadLink(NgramDrafter(), clock)),
    ]

    stream = run(lanes, turn)

    ended = ends(stream)
    assert [ended[lane].stop_reason for lane in range(3)] == ["length", "length", "error"]
    assert ended[2].error == "The draft worker died (exit code -9)."
    assert tokens(stream, 0) == tokens(stream, 1)


@pytest.mark.parametrize("drafter", [FailingDrafter, SilentDrafter])
def test_lane_that_fails_ends_alone(tiny: TinyModels, bench: Bench, drafter: type[NgramDrafter]) -> None:
    lanes = [
        bench.raw_lane(tiny.target(), "ar"),
        bench.raw_lane(tiny.target(), "sd", link=InlineLink(drafter(), clock)),
        bench.raw_lane(tiny.target(), "ssd", draft=str(tiny.draft())),
    ]

    stream = run(lanes)

    ended = ends(stream)
    assert [ended[lane].stop_reason for lane in range(3)] == ["length", "error", "length"]
    assert ended[1].error in ("The draft device is gone.", "Nobody listens.")
    assert ended[1].n_tokens == len(tokens(stream, 1))
    assert tokens(stream, 0) == tokens(stream, 2)


def test_request_that_no_lane_can_take_is_refused(three: list[DecodeLane]) -> None:
    with pytest.raises(UsageError, match="The prompt is empty"):
        run(three, request=Request(messages=(("user", " "),)))


def test_cancelled_race_ends_every_lane(three: list[DecodeLane]) -> None:
    seen: list[bool] = []

    def cancelled() -> bool:
        seen.append(True)
        return len(seen) > 20

    stream = run(three, cancelled=cancelled)

    assert {end.stop_reason for end in ends(stream).values()} == {"cancelled"}
    assert len(ends(stream)) == 3
