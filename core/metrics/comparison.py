"""The JSON object of recordings put side by side: a race's, with what forbids to compare its lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from msgspec.structs import asdict, replace

from specmon.core.events import AnyEvent, Turn
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.race import all_unlike
from specmon.core.metrics.race_recordings import SideBySide
from specmon.core.metrics.summary import RaceSummary, race_summary


class PairSummary(RaceSummary, frozen=True, kw_only=True):
    """One turn of every recording. `differs`: in what any lane does from the first besides the decoder.

    A lane that does has no ratio.
    """

    differs: tuple[str, ...]


class Comparison(PairSummary, frozen=True, kw_only=True):
    """The newest turn that all recordings have, and with it the `earlier` ones, oldest first.

    `turns` says how many each recording holds.
    """

    turns: tuple[int, ...]
    earlier: tuple[PairSummary, ...]

    @property
    def pairs(self) -> tuple[PairSummary, ...]:
        """All turns, oldest first."""
        return (*self.earlier, self)


def comparison(race: SideBySide, sessions: Sequence[str]) -> Comparison:
    """Sum up recordings side by side; `sessions` says where each of them is."""
    *earlier, newest = _pairs(race, sessions)
    return Comparison(**asdict(newest), turns=race.turns, earlier=tuple(earlier))


def _pairs(race: SideBySide, sessions: Sequence[str]) -> Iterator[PairSummary]:
    """Every turn when its last event is in, before a ledger lets it go."""
    ledger, turn = Ledger(), 0
    for event in race.events:
        if isinstance(event, Turn) and event.turn != turn:
            yield _pair(ledger, race, turn, sessions)
            turn = event.turn
        ledger.feed(cast("AnyEvent", event))
    yield _pair(ledger, race, turn, sessions)


def _pair(ledger: Ledger, race: SideBySide, turn: int, sessions: Sequence[str]) -> PairSummary:
    unlike = race.unlike[turn]
    summed = race_summary(ledger, unlike=unlike)
    numbers = [number for number, lane in ledger.lanes.items() if lane.turn(turn) is not None]
    lanes = tuple(
        replace(
            lane,
            session=sessions[race.sources[number]],
            devices=tuple(race.devices[number][name] for name in lane.devices),
        )
        for number, lane in zip(numbers, summed.lanes, strict=True)
    )
    return PairSummary(**asdict(replace(summed, lanes=lanes)), differs=all_unlike(unlike.values()))
