"""The recordings that ship: each one checks, and WHY names the planted cause of each and no other."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from specmon.core.events import Header, Marker
from specmon.core.metrics.causes import CauseName
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.spans import overlap
from specmon.core.metrics.validate import Validator
from specmon.core.metrics.why import SHORT_COLUMNS, Why, why
from specmon.core.session.reader import SessionReader

SESSIONS = Path(__file__).resolve().parents[2] / "sessions"
DEMOS = {"ar", "sd", "ssd", "eagle3", "race"}
CAUSES = {
    "launch-bound": "launch-bound",
    "verify-bound": "verify-bound",
    "weak-drafter": "weak drafter",
    "k-too-deep": "K too deep",
    "empty-slots": "empty slots",
    "no-overlap": "no overlap",
    "slow-branches": "slow branches",
    "throttling": "throttling",
}
PLANTED = {"launch-bound", "verify-bound", "throttling"}
MOST_BYTES = 200_000
SHIPPED = sorted(SESSIONS.rglob("*.session"))


def ledger_of(path: Path) -> Ledger:
    ledger = Ledger()
    with SessionReader.open(path) as reader:
        for event in reader.events():
            ledger.feed(event)  # type: ignore[arg-type]
        assert reader.warnings == ()
    return ledger


def said_of(path: Path, last: int = 64) -> Why:
    lane = ledger_of(path).lanes[0]
    return why(lane, lane.turns[-1], last)


def test_every_demo_and_every_cause_ships() -> None:
    assert {path.stem for path in SESSIONS.glob("*.session")} >= DEMOS
    assert {path.stem for path in (SESSIONS / "causes").glob("*.session")} == set(CAUSES)
    assert set(CAUSES.values()) == set(get_args(CauseName))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recording_holds_every_identity(path: Path) -> None:
    validator = Validator()
    with SessionReader.open(path) as reader:
        for event in reader.events():
            validator.feed(event)  # type: ignore[arg-type]
    assert validator.finish().problems == ()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recording_is_small_and_names_no_machine(path: Path) -> None:
    assert path.stat().st_size <= MOST_BYTES
    with SessionReader.open(path) as reader:
        assert reader.warnings == ()
        assert reader.header.host is None


@pytest.mark.parametrize("name", CAUSES)
def test_why_names_the_planted_cause_and_no_other(name: str) -> None:
    said = said_of(SESSIONS / "causes" / f"{name}.session")
    assert said.cause is not None
    assert said.cause.name == CAUSES[name]
    for text in (said.text, said.short):
        assert [cause for cause in CAUSES.values() if cause in text] == [CAUSES[name]]
    assert len(said.short) <= SHORT_COLUMNS


def test_branches_that_outlast_verification_bound_ssd_on_two_gpus() -> None:
    said = said_of(SESSIONS / "h200x2-ssd-reference.session")
    assert said.cause is not None
    assert said.cause.name == "slow branches"


@pytest.mark.parametrize(
    ("name", "cause", "least_overlap"),
    [("h200x2-ssd-7b", "verify-bound", 0.7), ("h200x2-ssd", None, 0.2)],
)
def test_recordings_of_two_gpus_show_how_far_they_overlap(
    name: str, cause: str | None, least_overlap: float
) -> None:
    """A 7B target hides its branches; a small one is over just before them, which costs too little to be a cause."""
    path = SESSIONS / f"{name}.session"
    turn = ledger_of(path).lanes[0].turns[-1]
    both = overlap(turn.rounds, 2)
    assert both is not None
    assert both.total_ns / turn.decode_ns > least_overlap
    named = said_of(path).cause
    assert (named.name if named else None) == cause


@pytest.mark.parametrize("name", CAUSES)
def test_no_other_cause_is_named_while_the_recording_plays(name: str) -> None:
    """A rule may not hold yet, but none holds that should not."""
    ledger, named = Ledger(), set()
    with SessionReader.open(SESSIONS / "causes" / f"{name}.session") as reader:
        for event in reader.events():
            ledger.feed(event)  # type: ignore[arg-type]
            lane = ledger.lanes.get(0)
            if lane is not None and lane.turns and lane.turns[-1].n_rounds >= 24:
                cause = why(lane, lane.turns[-1]).cause
                named.add(None if cause is None else cause.name)
    assert named <= {None, CAUSES[name]}


@pytest.mark.parametrize("name", CAUSES)
def test_edited_recordings_say_so_and_the_others_were_not(name: str) -> None:
    with SessionReader.open(SESSIONS / "causes" / f"{name}.session") as reader:
        labels = [event.label for event in reader.events() if isinstance(event, Marker)]
    assert any(label.startswith("planted: ") for label in labels) == (name in PLANTED)


def test_speculating_demos_give_the_same_text() -> None:
    texts = {
        name: ledger_of(SESSIONS / f"{name}.session").lanes[0].turns[0].text
        for name in ("sd", "ssd", "eagle3")
    }
    assert len(set(texts.values())) == 1


def test_race_demo_has_three_equal_lanes() -> None:
    lanes = ledger_of(SESSIONS / "race.session").lanes
    assert [lane.lane.decoder for lane in lanes.values()] == ["ar", "sd", "ssd"]
    assert len({tuple(lane.turns[0].tokens()) for lane in lanes.values()}) == 1


def test_headers_say_where_the_recordings_are_from() -> None:
    for path in SHIPPED:
        with SessionReader.open(path) as reader:
            header = reader.header
        assert isinstance(header, Header)
        assert header.devices, path.name
        assert header.utc_start, path.name
