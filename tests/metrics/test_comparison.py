"""The JSON of recordings side by side: every turn, in the shape of a race."""

import msgspec
import pytest
from msgspec.structs import replace

from specmon.core.events import Header, Round, Turn, TurnEnd
from specmon.core.metrics.comparison import PairSummary, comparison
from specmon.core.metrics.race_recordings import side_by_side
from specmon.core.metrics.summary import RaceSummary, summary


@pytest.fixture
def ar(stream, plan):
    return stream([plan(0)] * 24, decoder="ar", devices=("cuda:0",))


@pytest.fixture
def ssd(stream, plan):
    return stream([plan(2)] * 8, decoder="ssd")


def compared(*recordings):
    return comparison(side_by_side(recordings), [f"/{name}.session" for name in "abcd"[: len(recordings)]])


def another_turn(events):
    """The recording with its turn once more, as turn 1."""
    body = [e for e in events if isinstance(e, Turn | Round | TurnEnd) or type(e).__name__ == "Prefill"]
    return [*events, *(replace(e, turn=1) for e in body)]


def test_lanes_have_the_figures_of_their_own_recordings(ar, ssd, ledger_of):
    other = [replace(d, model="other", read_ceiling=5e11) for d in ssd[0].devices]
    ssd = [replace(e, devices=tuple(other)) if isinstance(e, Header) else e for e in ssd]
    figures = compared(ar, ssd)
    assert figures.lanes == tuple(
        summary(ledger_of(events), session=f"/{name}.session") for name, events in (("a", ar), ("b", ssd))
    )
    assert (figures.differs, figures.ratios, figures.equal) == (("hardware",), (1.0, None), None)


def test_json_is_a_races_and_what_differs(ar, ssd):
    figures = compared(ar, ssd)
    assert (figures.equal, figures.first_difference, figures.differs) == (True, None, ())
    assert figures.ratios[1] == pytest.approx(figures.lanes[0].ms_per_token / figures.lanes[1].ms_per_token)
    assert list(msgspec.to_builtins(figures)) == [
        *RaceSummary.__struct_fields__,
        "differs",
        "turns",
        "earlier",
    ]


def test_every_turn_is_compared(ar, ssd):
    wrong = [replace(e, emitted=(7, 7, 7)) if isinstance(e, Round) and e.index == 4 else e for e in ssd]
    figures = compared(another_turn(ar), [*wrong, *another_turn(ssd)[len(ssd) :], replace(ssd[2], turn=2)])
    assert figures.turns == (2, 3)
    assert [pair.equal for pair in figures.pairs] == [False, True]
    assert figures.earlier[0].first_difference == 13
    assert type(figures.earlier[0]) is PairSummary
    assert figures.ratios[1] is not None


def test_output_that_is_not_whole_has_no_ratio_yet(ar, ssd):
    cut = [e for e in ssd if not isinstance(e, TurnEnd)][:-2]
    figures = compared(ar, cut)
    assert (figures.equal, figures.ratios) == (None, (1.0, None))
    differs = [replace(e, emitted=(7, 7, 7)) if isinstance(e, Round) else e for e in cut]
    assert compared(ar, differs).equal is False
