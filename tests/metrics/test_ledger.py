import msgspec

from specmon.core.events import (
    ArStep,
    ClockSync,
    Gap,
    Header,
    Lane,
    Log,
    Marker,
    Sample,
    Snapshot,
    Telemetry,
    Vocabulary,
)
from specmon.core.metrics.ledger import LOG_LINES, TELEMETRY_SAMPLES, Ledger


def test_piece_falls_back_to_the_id(ledger_of):
    ledger = ledger_of([Vocabulary(t=0, pieces={5: " the"}), Vocabulary(t=1, pieces={6: "\x1b[31m"})])
    assert [ledger.piece(token) for token in (5, 6, 7, None)] == [" the", "\x1b[31m", "#7", "#?"]


def test_ledger_keeps_marks_gaps_and_clocks(ledger_of):
    marker, gap = Marker(t=3, label="slow"), Gap(t=4, count=2, reason="disk full")
    clock = ClockSync(t=9, device="cuda:1", offset_ns=49_700, bound_ns=300)
    ledger = ledger_of([Header(t=0), marker, gap, clock, Sample(t=5, values={}), Snapshot(t=6, counters={})])
    assert (ledger.markers, ledger.gaps, ledger.clocks) == ([marker], [gap], {"cuda:1": clock})
    assert ledger.newest_t == 9


def test_oldest_turns_are_let_go_beyond_the_rounds_kept(monkeypatch, stream, plan):
    monkeypatch.setattr("specmon.core.metrics.ledger.ROUNDS_KEPT", 5)
    ledger = Ledger()
    head = True
    for number in range(4):
        for event in stream([plan(accepted=1) for _ in range(3)]):
            if hasattr(event, "turn") and not isinstance(event, (Header, Lane)):
                event = msgspec.structs.replace(event, turn=number)
            elif not head:
                continue
            ledger.feed(event)
        head = False
    lane = ledger.lanes[0]
    assert [turn.turn.turn for turn in lane.turns] == [2, 3]
    assert [turn.n_rounds for turn in lane.turns] == [3, 3]
    assert lane.forgotten == 2
    assert lane.turn(0) is None
    assert len(lane._leaving) < 3  # two go with each new round


def test_logs_and_telemetry_are_bounded():
    ledger = Ledger()
    for t in range(max(LOG_LINES, TELEMETRY_SAMPLES) + 10):
        ledger.feed(Log(t=t, level="info", text=str(t)))
        ledger.feed(Telemetry(t=t, device="cuda:0", power_w=float(t)))
    assert len(ledger.logs) == LOG_LINES
    assert len(ledger.telemetry_history["cuda:0"]) == TELEMETRY_SAMPLES
    assert ledger.telemetry["cuda:0"].power_w == ledger.newest_t


def test_every_lane_sees_the_devices_counters(race_stream, plan, ledger_of):
    sample = Telemetry(t=1, device="cuda:0", power_w=612.0)
    ledger = ledger_of([*race_stream([([plan(0)], {"decoder": "ar"})] * 2), sample])
    assert [lane.telemetry["cuda:0"] for lane in ledger.lanes.values()] == [sample] * 2


def test_events_without_their_start_are_counted_and_left_out(stream, plan, ledger_of):
    header, lane, turn, *rest = stream([plan(1)] * 2)
    assert ledger_of([header, turn, *rest]).orphans == 1 + len(rest)
    ledger = ledger_of([header, lane, *rest])
    assert ledger.orphans == len(rest)
    assert ledger.lanes[0].turns == []


def test_turn_keeps_the_lane_it_started_with(stream, plan, ledger_of):
    events = stream([plan(0)] * 2, decoder="ar")
    ledger = ledger_of([*events, *stream([plan(1)] * 2, decoder="sd", turn=1)[1:]])
    assert [turn.lane.decoder for turn in ledger.lanes[0].turns] == ["ar", "sd"]
    assert ledger.lanes[0].lane.decoder == "sd"


def test_turn_sent_again_replaces_itself(stream, plan, ledger_of):
    events = stream([plan(1)] * 2)
    ledger = ledger_of([*events, *events[2:]])
    assert len(ledger.lanes[0].turns) == 1
    assert ledger.lanes[0].turns[0].n_rounds == 2


def test_ar_turn_measures_the_ar_step_for_later_turns(stream, plan, ledger_of):
    first = stream([plan(0)] * 4, decoder="ar")
    ledger = ledger_of([*first, *stream([plan(1)] * 2, decoder="sd", turn=1)[1:]])
    step = ledger.lanes[0].ar_step
    assert step is not None
    assert (step.ns, step.steps, step.kv_len) == (4_100_000, 4, 12)


def test_measured_ar_step_of_a_stream_counts_for_all_lanes_of_the_target(race_stream, plan, ledger_of):
    events = race_stream([([plan(1)] * 4, {"decoder": "sd"}), ([plan(1)] * 4, {"decoder": "ssd"})])
    ledger = ledger_of([*events, ArStep(t=events[-1].t, lane=1, kv_len=84, steps=32, ns=2_900_000)])
    assert [ledger.lanes[i].ar_step_ns for i in (0, 1)] == [2_900_000, 2_900_000]
    assert ledger.lanes[0].ar_step.kv_len == 84


def test_ar_step_of_no_time_or_no_lane_is_not_taken(stream, plan, ledger_of):
    events = stream([plan(1)] * 4, decoder="sd")
    nonsense = [ArStep(t=events[-1].t, lane=lane, kv_len=84, steps=32, ns=0) for lane in (0, 7)]
    ledger = ledger_of([*events, *nonsense])
    assert ledger.lanes[0].ar_step is None
    assert ledger.orphans == 1


def test_ar_step_is_forgotten_with_another_target(stream, plan, ledger_of):
    events = stream([plan(0)] * 4, decoder="ar")
    other = next(msgspec.structs.replace(e, target="other") for e in events if isinstance(e, Lane))
    ledger = ledger_of([*events, other])
    assert ledger.lanes[0].ar_step_ns is None


def test_ar_lane_of_a_race_measures_the_step_for_all_lanes(race_stream, plan, ledger_of):
    lanes = [([plan(0)] * 4, {"decoder": "ar"}), ([plan(1)] * 4, {"decoder": "sd"})]
    ledger = ledger_of(race_stream(lanes))
    assert ledger.lanes[1].ar_step_ns == 4_100_000
