import pytest
from msgspec.structs import replace

from specmon.core.errors import UsageError
from specmon.core.events import Header, Lane, Round, Turn
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.race import standings
from specmon.core.metrics.race_recordings import START_NS, side_by_side
from specmon.core.metrics.race_tokens import difference_at, tokens_around


@pytest.fixture
def ar(stream, plan):
    return stream([plan(0)] * 24, decoder="ar", devices=("cuda:0",))


@pytest.fixture
def ssd(stream, plan):
    return stream([plan(2)] * 7 + [plan(2, outcome="late")], decoder="ssd", prompt_tokens=10)


def fed(events):
    ledger = Ledger()
    for event in events:
        ledger.feed(event)
    return ledger


def changed(events, kind, **fields):
    return [replace(e, **fields) if isinstance(e, kind) else e for e in events]


def test_lanes_read_as_in_their_own_files(ar, ssd):
    race = side_by_side([ar, ssd])
    assert race.unlike == ()
    for events, ours in ((ar, fed(race.events).lanes[0]), (ssd, fed(race.events).lanes[1])):
        own, turn = fed(events).lanes[0].turns[0], ours.turns[0]
        assert turn.time() == own.time()
        assert (turn.tokens(), turn.text, turn.decode_ns) == (own.tokens(), own.text, own.decode_ns)
        assert (turn.prefill_ns, turn.ttft_ms) == (own.prefill_ns, own.ttft_ms)
        assert turn.rounds[0].t0 == START_NS
    assert standings(fed(race.events)).standings[1].verdict.ratio is not None


def test_events_are_in_the_order_of_the_common_clock(ar, ssd):
    times = [event.t for event in side_by_side([ar, ssd]).events]
    assert times == sorted(times)


def test_pause_between_bursts_is_no_time_of_the_lane(race_stream, plan):
    events = race_stream([([plan(0)] * 24, {"decoder": "ar"}), ([plan(2)] * 24, {"decoder": "sd"})])
    race = fed(side_by_side([events]).events)
    for lane in (0, 1):
        rounds = race.lanes[lane].turns[0].rounds
        assert rounds[-1].t1 - rounds[0].t0 == race.lanes[lane].turns[0].decode_ns


@pytest.mark.parametrize(
    ("kind", "fields", "unlike"),
    [
        (Turn, {"prompt": "another"}, "different prompt"),
        (Lane, {"target": "another"}, "different target"),
        (Header, {"hashes": {"target": "1234"}}, "different target"),
        (Lane, {"recipe": "fp8"}, "different recipe"),
        (Lane, {"backend": "triton-1"}, "different recipe"),
        (Turn, {"stop_strings": ("x",)}, "different sampling"),
    ],
)
def test_what_forbids_to_compare_is_named_and_there_is_no_ratio(ar, ssd, kind, fields, unlike):
    race = side_by_side([ar, changed(ssd, kind, **fields)])
    assert race.unlike == (unlike,)
    row = standings(fed(race.events), unlike=race.unlike).standings[1]
    assert (row.verdict.ratio, row.verdict.equal, row.verdict.output) == (None, None, unlike)


def test_other_hardware_keeps_its_own_ceiling(ar, ssd):
    devices = tuple(replace(d, model="other", read_ceiling=5e11) for d in ssd[0].devices)
    race = side_by_side([ar, changed(ssd, Header, devices=devices)])
    assert race.unlike == ("different hardware",)
    lanes = fed(race.events).lanes
    assert lanes[0].turns[0].devices[0].read_ceiling == 1e12
    assert lanes[1].turns[0].devices[0].read_ceiling == 5e11
    assert lanes[1].lane.devices == ("cuda:0 of B", "cuda:1")


@pytest.mark.parametrize("count", [0, 1, 5])
def test_lanes_must_make_a_race(ar, count):
    with pytest.raises(UsageError, match=f"{count} lanes"):
        side_by_side([ar] * count)


def test_recording_without_header_or_rounds_is_no_crash(ar):
    bare = [e for e in ar if not isinstance(e, Round | Header)]
    race = side_by_side([ar, bare])
    assert standings(fed(race.events)).standings[1].n_tokens == 1


def test_tokens_around_the_first_difference(ar):
    other = [replace(e, emitted=(7,), bonus=7) if isinstance(e, Round) and e.index == 4 else e for e in ar]
    race = standings(fed(side_by_side([ar, other]).events))
    assert difference_at(race) == 5
    rows = tokens_around(race, 5)
    assert [row.index for row in rows] == list(range(12))
    assert [row.index for row in rows if any(row.differs)] == [5]
    assert rows[5].tokens == ((1015, "<1015>"), (7, "<1015>"))


def test_no_difference_between_equal_lanes(ar):
    assert difference_at(standings(fed(side_by_side([ar, ar]).events))) is None
