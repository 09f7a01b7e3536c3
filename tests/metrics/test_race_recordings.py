import pytest
from msgspec.structs import replace

from specmon.core.errors import UsageError
from specmon.core.events import Header, Lane, Prefill, Round, Turn
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
    assert race.unlike == ({},)
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
        (Turn, {"prompt": "another"}, "prompt"),
        (Turn, {"prompt_tokens": 99}, "prompt"),
        (Turn, {"reused_tokens": 9}, "history"),
        (Lane, {"target": "another"}, "target"),
        (Header, {"hashes": {"target": "1234"}}, "target"),
        (Lane, {"recipe": "fp8"}, "recipe"),
        (Lane, {"backend": "triton-1"}, "recipe"),
        (Turn, {"stop_strings": ("x",)}, "sampling"),
        (Turn, {"max_new_tokens": 7}, "max_new_tokens"),
    ],
)
def test_what_forbids_to_compare_is_named_and_there_is_no_ratio(ar, ssd, kind, fields, unlike):
    ar = changed(ar, Header, hashes={"target": "5678"})
    race = side_by_side([ar, changed(ssd, kind, **fields)])
    assert race.unlike == ({1: (unlike,)},)
    verdict = standings(fed(race.events), unlike=race.unlike[0]).standings[1].verdict
    assert (verdict.ratio, verdict.equal, verdict.output) == (None, None, f"different {unlike}")


def test_only_the_lane_that_differs_gets_no_ratio(ar, ssd):
    race = side_by_side([ar, ssd, changed(ssd, Lane, recipe="fp8")])
    assert race.unlike == ({2: ("recipe",)},)
    board = standings(fed(race.events), unlike=race.unlike[0])
    assert board.unlike == ("recipe",)
    assert board.standings[1].verdict.ratio is not None
    assert board.standings[2].verdict.output == "different recipe"


@pytest.mark.parametrize(
    ("kind", "fields"), [(Turn, {"prompt": None}), (Header, {"hashes": {}}), (Header, {"devices": ()})]
)
def test_what_a_recording_does_not_tell_differs_from_nothing(ar, ssd, kind, fields):
    assert side_by_side([ar, changed(ssd, kind, **fields)]).unlike == ({},)


def test_devices_under_another_power_cap_are_other_hardware(ar, ssd):
    capped = [tuple(replace(d, power_cap_w=watts) for d in ssd[0].devices) for watts in (350.0, 700.0)]
    race = side_by_side([changed(e, Header, devices=d) for e, d in zip((ar, ssd), capped, strict=True)])
    assert race.unlike == ({1: ("hardware",)},)


def test_other_hardware_keeps_its_own_ceiling(ar, ssd):
    devices = tuple(replace(d, model="other", read_ceiling=5e11) for d in ssd[0].devices)
    race = side_by_side([ar, changed(ssd, Header, devices=devices)])
    assert race.unlike == ({1: ("hardware",)},)
    lanes = fed(race.events).lanes
    assert lanes[0].turns[0].devices[0].read_ceiling == 1e12
    assert lanes[1].turns[0].devices[0].read_ceiling == 5e11
    assert lanes[1].lane.devices == ("cuda:0 of B", "cuda:1")


@pytest.fixture
def chat(stream, plan):
    """Makes a recording of turns, one for each decoder given."""

    def make(*decoders):
        events = []
        for number, decoder in enumerate(decoders):
            plans = [plan(0)] * 24 if decoder == "ar" else [plan(2)] * 8
            turn = stream(plans, decoder=decoder, turn=number)
            moved = [shifted(event, number * 10**10) for event in turn]
            events += [e for e in moved if not (events and isinstance(e, Header))]
        return events

    return make


def shifted(event, by):
    times = {name: getattr(event, name) + by for name in ("t", "t0", "t1") if hasattr(event, name)}
    if isinstance(event, Round | Prefill):
        times["spans"] = tuple(replace(s, start=s.start + by, end=s.end + by) for s in event.spans)
    return replace(event, **times)


def test_turns_are_paired_by_their_order(chat):
    race = side_by_side([chat("ar", "sd", "sd"), chat("ssd", "ar")])
    assert (race.turns, race.unlike) == ((3, 2), ({}, {}))
    assert race.unpaired == "3 and 2 turns: of each only the first 2 are paired"
    lanes = fed(race.events).lanes
    assert [[t.lane.decoder for t in lane.turns] for lane in lanes.values()] == [["ar", "sd"], ["ssd", "ar"]]
    first, second = lanes.values()
    for a, b in zip(first.turns, second.turns, strict=True):
        assert (a.turn.turn, a.rounds[0].t0) == (b.turn.turn, b.rounds[0].t0)
    ends = [turn.rounds[-1].t1 for turn in (first.turns[0], second.turns[0])]
    assert first.turns[1].turn.t >= max(ends)


def test_times_never_go_back_between_turns(chat):
    times = [event.t for event in side_by_side([chat("ar", "sd"), chat("ssd", "ar")]).events]
    assert times == sorted(times)
    assert times[0] == 0


def test_recordings_of_as_many_turns_leave_none_out(chat):
    assert side_by_side([chat("ar", "sd"), chat("ssd", "sd")]).unpaired == ""


def test_only_the_turn_that_differs_gets_no_ratio(chat):
    other = [
        replace(e, prompt="another") if isinstance(e, Turn) and e.turn == 1 else e for e in chat("sd", "sd")
    ]
    assert side_by_side([chat("ar", "ar"), other]).unlike == ({}, {1: ("prompt",)})


def test_turns_that_go_on_from_other_prompts_differ(chat):
    """The second turns keep the KV of the whole first prompt, which was another one."""

    def going_on(events, prompt):
        fields = ({"prompt": prompt}, {"reused_tokens": 10, "prompt_tokens": 60})
        return [replace(e, **fields[e.turn]) if isinstance(e, Turn) else e for e in events]

    a, b = going_on(chat("sd", "sd"), "one"), going_on(chat("ar", "sd"), "two")
    assert side_by_side([a, b]).unlike == ({1: ("prompt",)}, {1: ("history",)})
    assert side_by_side([a, a]).unlike == ({}, {})


def test_recording_without_a_turn_cannot_be_paired(race_stream, plan, ar):
    two = race_stream([([plan(0)] * 9, {"decoder": "ar"}), ([plan(2)] * 9, {"decoder": "sd"})])
    with pytest.raises(UsageError, match="Recording 2 holds no turn"):
        side_by_side([two, ar[:2]])


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
