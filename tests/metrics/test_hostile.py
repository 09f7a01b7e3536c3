"""A file may hold anything that decodes: figures may then be nonsense, but nothing may fail."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from specmon.core.events import Branch, DeviceBytes, Lane, Round, Span, TurnEnd
from specmon.core.metrics.bandwidth import device_bandwidths, floor_ms_per_token
from specmon.core.metrics.race import standings
from specmon.core.metrics.race_why import race_why
from specmon.core.metrics.summary import race_summary, summary
from specmon.core.metrics.validate import Validator
from specmon.core.metrics.why import why

ints = st.sampled_from([-(2**62), -7, -1, 0, 1, 2, 5, 2**62])
some_ids = st.lists(st.none() | ints, max_size=5).map(tuple)
small = st.integers(-3, 6)
spans = st.builds(
    Span,
    small,
    st.sampled_from(["main", "draft"]),
    st.sampled_from(["draft", "branch_draft", "verify", "accept", "wait"]),
    ints,
    ints,
    small,
)
branches = st.builds(
    Branch, small, st.none() | ints, small, st.none() | st.floats(), st.just(()), st.none() | ints
)
hostile_rounds = st.builds(
    Round,
    t=ints,
    index=small,
    t0=ints,
    t1=ints,
    requested_k=small,
    drafter=st.none(),
    draft=some_ids,
    parents=st.none() | st.lists(small, max_size=6).map(tuple),
    accepted_path=st.none() | st.lists(small, max_size=3).map(tuple),
    accepted_len=small,
    bonus=st.none() | ints,
    emitted=some_ids,
    text=st.lists(st.just("\x1b[2J"), max_size=5).map(tuple),
    kv_len=st.lists(ints, max_size=2).map(tuple),
    fan_out=st.none() | st.lists(small, max_size=3).map(tuple),
    branches=st.lists(branches, max_size=4).map(tuple),
    hit=st.none() | small,
    miss=st.sampled_from([None, "rank", "late", "none"]),
    spans=st.lists(spans, max_size=5).map(tuple),
    bytes=st.lists(st.builds(DeviceBytes, small, ints, ints, ints), max_size=2).map(tuple),
    host_launches=st.none() | ints,
    discarded=st.booleans(),
)


@settings(max_examples=30)
@given(
    rounds=st.lists(hostile_rounds, min_size=8, max_size=20),
    devices=st.sampled_from([(), ("cpu:0",), ("cuda:0", "cuda:1"), ("a", "a", "a")]),
    fan_out=st.sampled_from([None, (), (1, 2)]),
)
def test_hostile_rounds_make_nothing_fail(stream, plan, ledger_of, rounds, devices, fan_out):
    header, lane, turn, prefill, *_ = stream([plan(1)])
    lane = msgspec.structs.replace(lane, devices=devices)
    turn = msgspec.structs.replace(turn, fan_out=fan_out)
    second = [msgspec.structs.replace(e, lane=1) for e in (lane, turn, prefill, *rounds)]
    end = TurnEnd(t=0, stop_reason="eos", n_tokens=0, rounds=0, text="\x9b")
    events = [header, lane, turn, prefill, *rounds, end, *second]
    ledger = ledger_of(events)
    metrics = ledger.lanes[0].turns[0]
    ledger.lanes[0].set_ar_step(1, 1, 1)
    why(ledger.lanes[0], metrics)
    device_bandwidths(metrics, {})
    floor_ms_per_token(metrics)
    race_why(standings(ledger))
    summary(ledger), race_summary(ledger)
    metrics.windows(2), metrics.token_fates()
    for position in range(metrics.n_rounds):
        metrics.origin(position)
    validator = Validator()
    for event in events:
        validator.feed(event)
    assert validator.finish().n_events == len(events)


def test_lane_without_devices_or_sizes_still_has_its_rates(stream, plan, ledger_of):
    events = [
        Lane(t=e.t, decoder="sd", target="served", url="http://host") if isinstance(e, Lane) else e
        for e in stream([plan(4)] * 10, decoder="sd")
    ]
    ledger = ledger_of(events)
    printed = summary(ledger)
    assert printed.tokens_per_round == 5.0
    assert (printed.overlap_ms, printed.sol_fraction, printed.devices) == (None, None, ())
    assert "no ceiling measured" in why(ledger.lanes[0], ledger.lanes[0].turns[0]).text
