"""Positions in a recording: stepping, seeking, playing."""

from __future__ import annotations

import pytest

from specmon.core.events import Header, Lane, Marker, Prefill, Round, Telemetry, Turn, TurnEnd
from specmon.tui.feeds.playback import Playback, Speed
from specmon.tui.feeds.seek import go_to
from specmon.tui.feeds.stops import FOLD_NS

MS = 1_000_000


def round_(turn: int, index: int, t0: int, t1: int, *, miss: str | None = None, accepted: int = 1) -> Round:
    return Round(
        t=t1,
        turn=turn,
        index=index,
        t0=t0,
        t1=t1,
        requested_k=2,
        drafter="draft_model",
        draft=(5, 6),
        accepted_len=accepted,
        bonus=7,
        emitted=(5, 7),
        text=("a", "b"),
        miss=miss,  # type: ignore[arg-type]
    )


def turn_events(turn: int, start: int, rounds: int, *, slow: int | None = None) -> list[object]:
    """A turn of `rounds` rounds of 10 ms from `start` (ns); the round `slow` takes 40 ms."""
    events: list[object] = [
        Turn(t=start, turn=turn, prompt="p", prompt_tokens=3, draft_len=2),
        Prefill(t=start + MS, turn=turn, t0=start, chunks=(), token_one=1, text="x"),
    ]
    t = start + MS
    for index in range(rounds):
        end = t + (40 if index == slow else 10) * MS
        events.append(round_(turn, index, t, end, miss="rank" if index == 2 else None))
        t = end
    return [*events, TurnEnd(t=t, turn=turn, stop_reason="length", n_tokens=1 + 2 * rounds, rounds=rounds)]


@pytest.fixture
def playback() -> Playback:
    """Two turns of 4 and 3 rounds, five seconds apart; all stops: 0 1 2 3 4 | 5 6 7 8."""
    playback = Playback()
    playback.stops.add(Header(t=0))
    playback.stops.add(Lane(t=0, decoder="sd", target="m"))
    for event in turn_events(0, 0, 4, slow=1) + turn_events(1, 5_000 * MS, 3):
        playback.stops.add(event)  # type: ignore[arg-type]
    return playback


def test_stop_shows_what_follows_its_round(playback: Playback) -> None:
    playback.go(4)
    assert playback.visible == 9  # header, lane, turn, prefill, four rounds, end
    playback.go(0)
    assert playback.visible == 4


def test_nothing_is_visible_before_the_first_stop(playback: Playback) -> None:
    assert playback.visible == 0
    assert playback.here is None


def test_paused_file_stands_at_its_first_stop_once_read(playback: Playback) -> None:
    playback.playing = False
    playback.advance(0.0)
    assert playback.at == 0


def test_file_without_rounds_is_visible_whole() -> None:
    playback = Playback()
    playback.stops.add(Header(t=0))
    playback.stops.add(Telemetry(t=5, device="cuda:0"))
    assert playback.visible == 2
    playback.step(1)
    playback.step(-1)
    playback.advance(10.0)
    assert playback.visible == 2
    assert not playback.find_slowest()


def test_step_clamps_at_both_ends_and_pauses(playback: Playback) -> None:
    playback.go(0)
    playback.step(-1)
    assert playback.at == 0
    playback.step(100)
    assert playback.at == 8
    assert not playback.playing


def test_place_counts_rounds_within_the_turn(playback: Playback) -> None:
    playback.go(0)
    assert playback.place() == (1, 2, 0, 4)
    playback.go(3)
    assert playback.place() == (1, 2, 3, 4)
    playback.go(7)
    assert playback.place() == (2, 2, 2, 3)


def test_step_turn_goes_to_the_start_then_to_the_turn_before(playback: Playback) -> None:
    playback.go(7)
    playback.step_turn(-1)
    assert playback.at == 5
    playback.step_turn(-1)
    assert playback.at == 0
    playback.step_turn(1)
    assert playback.at == 5
    playback.step_turn(1)
    assert playback.at == 8


def test_rounds_speed_moves_whole_rounds(playback: Playback) -> None:
    playback.go(0)
    playback.advance(0.19)
    assert playback.at == 0
    playback.advance(0.02)
    assert playback.at == 1
    playback.advance(0.4)
    assert playback.at == 3


def test_real_time_follows_the_file_clock(playback: Playback) -> None:
    playback.speed = Speed().other_unit()
    playback.go(0)
    playback.advance(0.011)
    assert playback.at == 1
    playback.advance(0.030)
    assert playback.at == 1
    playback.advance(0.010)
    assert playback.at == 2


def test_long_silence_is_folded(playback: Playback) -> None:
    playback.speed = Speed().other_unit()
    playback.go(4)
    playback.advance(FOLD_NS / 1e9 - 0.001)
    assert playback.at == 4
    playback.advance(0.002)
    assert playback.at == 5


def test_paused_playback_stays(playback: Playback) -> None:
    playback.go(1)
    playback.playing = False
    playback.advance(100.0)
    assert playback.at == 1


def test_play_at_the_end_starts_over(playback: Playback) -> None:
    playback.step(100)
    playback.toggle()
    assert playback.playing
    assert playback.at == 0


def test_find_next_miss_wraps_and_stays_when_there_is_none(playback: Playback) -> None:
    playback.go(0)
    assert playback.find_next_miss()
    assert playback.at == 3
    assert playback.find_next_miss()
    assert playback.at == 8
    assert playback.find_next_miss()
    assert playback.at == 3
    assert not Playback().find_next_miss()


def test_slowest_round_is_of_the_present_turn(playback: Playback) -> None:
    playback.go(4)
    assert playback.find_slowest()
    assert playback.at == 2
    playback.go(8)
    assert playback.find_slowest()
    assert playback.at == 6


def test_loop_returns_to_a(playback: Playback) -> None:
    playback.mark_a, playback.mark_b = 1, 3
    assert playback.toggle_loop()
    playback.go(1)
    playback.advance(0.41)
    assert playback.at == 3
    playback.advance(0.21)
    assert playback.at == 1


def test_loop_needs_a_before_b(playback: Playback) -> None:
    playback.mark_a, playback.mark_b = 3, 1
    assert not playback.toggle_loop()
    playback.mark_b = None
    assert not playback.toggle_loop()


def test_speed_stops_at_its_slowest_and_fastest() -> None:
    speed = Speed()
    assert speed.value == 5
    assert speed.changed(-50).value == 1
    assert speed.changed(50).value == 50
    assert speed.other_unit().changed(-50).value == 0.001
    assert speed.other_unit().changed(50).value == 64


def test_discarded_rounds_are_no_stops() -> None:
    playback = Playback()
    kept = round_(0, 0, 0, MS)
    playback.stops.add(kept)
    playback.stops.add(
        Round(**{name: getattr(kept, name) for name in kept.__struct_fields__} | {"discarded": True})
    )
    assert len(playback.stops) == 1
    assert playback.visible == 0
    playback.go(0)
    assert playback.visible == 2


def test_markers_are_found_at_their_time(playback: Playback) -> None:
    playback.stops.add(Marker(t=20 * MS, label="m"))
    assert playback.stops.at_time(playback.stops.markers[0].t) == 1


@pytest.mark.parametrize(
    ("place", "at"),
    [
        ("3", 3),
        ("2/1", 6),
        ("2 / 3", 8),
        ("0.02s", 1),
        ("15ms", 1),
        ("0:05.5", 8),
        ("5.005", 5),
        *((nowhere, None) for nowhere in ("-0s", "9", "3/1", "0", "", "x", "1e5")),
    ],
)
def test_go_to_understands(playback: Playback, place: str, at: int | None) -> None:
    playback.go(0)
    assert go_to(playback, place) is (at is not None)
    assert playback.at == (at if at is not None else 0)
