"""Each cause by hand: streams in which one rule holds, and the neighbours in which it must not."""

import msgspec
import pytest

from specmon.core.events import Round, Span, Telemetry
from specmon.core.metrics.why import SHORT_COLUMNS, why

MS = 1_000_000
CLOCK = 1_980


def cause_of(ledger, **options):
    lane = ledger.lanes[0]
    return why(lane, lane.turns[-1], **options)


def name_of(ledger, **options):
    cause = cause_of(ledger, **options).cause
    return None if cause is None else cause.name


def reshaped(events, change):
    """The stream with each round's fields replaced by what `change` gives for it."""
    return [msgspec.structs.replace(e, **change(e)) if isinstance(e, Round) else e for e in events]


def sampled(events, clock_of, reasons_of):
    """The stream with a telemetry sample of the target's device after every round."""
    out = []
    for event in events:
        out.append(event)
        if isinstance(event, Round):
            out.append(
                Telemetry(
                    t=event.t1,
                    device="cuda:0",
                    sm_clock_mhz=clock_of(event.index),
                    throttle=reasons_of(event.index),
                )
            )
    return out


def slowed(events, first, by):
    """Rounds from `first` on take `by` times as long, spans and all."""
    out, shift = [], 0
    for event in events:
        if isinstance(event, Round):
            factor = by if event.index >= first else 1
            t0 = event.t0 + shift
            spans = tuple(
                Span(s.device, s.stream, s.kind, t0 + (s.start - event.t0) * factor, t0 + (s.end - event.t0) * factor,
                     s.for_round)
                for s in event.spans
            )  # fmt: skip
            t1 = t0 + (event.t1 - event.t0) * factor
            shift += (t1 - t0) - (event.t1 - event.t0)
            event = msgspec.structs.replace(event, t=t1, t0=t0, t1=t1, spans=spans)
        elif shift:
            event = msgspec.structs.replace(event, t=event.t + shift)
        out.append(event)
    return out


def test_well_tuned_ssd_has_no_cause(stream, plan, ledger_of):
    assert name_of(ledger_of(stream([plan(4), plan(3), plan(4)] * 10))) is None


# --- launch-bound -------------------------------------------------------------------------------------------


def gapped(events, gap_ns):
    """Every round's spans start `gap_ns` later, so that nothing works at its start."""
    out, shift = [], 0
    for event in events:
        if isinstance(event, Round):
            spans = tuple(
                Span(
                    s.device, s.stream, s.kind, s.start + shift + gap_ns, s.end + shift + gap_ns, s.for_round
                )
                for s in event.spans
            )
            t0, t1 = event.t0 + shift, event.t1 + shift + gap_ns
            shift += gap_ns
            event = msgspec.structs.replace(event, t=t1, t0=t0, t1=t1, spans=spans, host_launches=412)
        elif shift:
            event = msgspec.structs.replace(event, t=event.t + shift)
        out.append(event)
    return out


def test_launch_bound_states_idle_time_and_launches(stream, plan, ledger_of):
    """Rounds of 6.1 ms and 4 ms without any device: 40 %."""
    said = cause_of(ledger_of(gapped(stream([plan(4)] * 20, decoder="sd"), 4 * MS)))
    assert said.text == (
        "launch-bound: no device works for 4.00 of 10.1 ms a round (40 %), 412 host launches a round."
    )
    assert said.cause.gain == pytest.approx(10.1 / 6.1)


def test_launch_bound_needs_a_quarter_of_the_round(stream, plan, ledger_of):
    assert name_of(ledger_of(gapped(stream([plan(4)] * 20, decoder="sd"), 1 * MS))) is None


def test_device_waiting_while_the_other_works_is_not_idle(stream, plan, ledger_of):
    def waits(r):
        return {"spans": (*r.spans, Span(1, "draft", "wait", r.t0, r.t1, r.index))}

    assert name_of(ledger_of(reshaped(stream([plan(4)] * 20, decoder="sd"), waits))) is None


# --- no overlap ---------------------------------------------------------------------------------------------


def one_after_the_other(r):
    """The branch drafting runs before the verification, on the same device."""
    branch_ns = 3 * MS
    moved = [
        Span(0, "main", "branch_draft", r.t0, r.t0 + branch_ns, r.index + 1),
        Span(0, "main", "verify", r.t0 + branch_ns, r.t1, r.index),
    ]
    return {"spans": tuple(moved)}


def test_no_overlap_of_ssd_on_one_device(stream, plan, ledger_of):
    events = stream([plan(4)] * 20, devices=("cuda:0",), verify_ns=8 * MS)
    said = cause_of(ledger_of(reshaped(events, one_after_the_other)))
    assert said.text.startswith("no overlap: 3.00 ms of branch drafting a round, 0.00 of it while the target")
    assert "share one device" in said.text


def test_no_overlap_of_two_devices_that_wait_for_each_other(stream, plan, ledger_of):
    def waits(r):
        moved = one_after_the_other(r)["spans"]
        return {"spans": (Span(1, "draft", *list(msgspec.to_builtins(moved[0]))[2:]), moved[1])}

    said = cause_of(ledger_of(reshaped(stream([plan(4)] * 20, verify_ns=8 * MS), waits)))
    assert said.cause.name == "no overlap"
    assert "wait for each other" in said.text


def test_sd_is_never_told_to_overlap(stream, plan, ledger_of):
    assert name_of(ledger_of(stream([plan(4)] * 20, decoder="sd"))) is None


# --- slow branches ------------------------------------------------------------------------------------------


def test_slow_branches_state_what_outlasts_verification(stream, plan, ledger_of):
    """Branches go on for 21 ms behind rounds of 4.1 ms (the first 6.1): 25.2 ms against 4 ms of verifying."""
    events = stream([plan(4)] * 15)  # too few for a slot to count as never hit
    said = cause_of(ledger_of(outlasting(events, 21 * MS)))
    round_ms = 25.1 + 2 / 15
    assert said.text == (
        "slow branches: drafting them takes 25.2 ms a round, verification 4.00: 21.2 ms cannot be hidden, "
        "84 % of a 25.2 ms round."
    )
    assert said.cause.gain == pytest.approx(round_ms / 4)


def test_slow_branches_come_before_a_k_too_deep_that_saves_less(stream, plan, ledger_of):
    """A shorter draft would save a part of the exposed time, shorter branches nearly all of it."""
    ledger = ledger_of(outlasting(stream([plan(1)] * 15), 21 * MS))
    assert name_of(ledger) == "slow branches"


def test_branches_as_long_as_verification_are_not_slow(stream, plan, ledger_of):
    assert name_of(ledger_of(stream([plan(4)] * 15, branch_ns=4 * MS))) is None


def test_time_of_slots_that_never_hit_is_not_counted_as_slow_branches(stream, plan, ledger_of):
    """One slot of ten hits: a tenth of 25 ms is less than verification, so all the exposed time is of empty slots."""
    assert name_of(ledger_of(outlasting(stream([plan(4)] * 24), 21 * MS))) == "empty slots"


# --- empty slots --------------------------------------------------------------------------------------------


def outlasting(events, by):
    """Every round lasts `by` ns longer, in which its branches are still drafted."""
    out, shift = [], 0
    for event in events:
        if isinstance(event, Round):
            spans = [s for s in event.spans if s.kind != "branch_draft"]
            spans.append(Span(1, "draft", "branch_draft", event.t0, event.t1 + by, event.index + 1))
            moved = tuple(
                Span(s.device, s.stream, s.kind, s.start + shift, s.end + shift, s.for_round) for s in spans
            )
            t1 = event.t1 + shift + by
            event = msgspec.structs.replace(event, t=t1, t0=event.t0 + shift, t1=t1, spans=moved)
            shift += by
        elif shift:
            event = msgspec.structs.replace(event, t=event.t + shift)
        out.append(event)
    return out


def test_empty_slots_of_branches_that_outlast_verification(stream, plan, ledger_of):
    """Ten branches a round, only the two of accepted_len 4 ever hit, prepared for 3 ms beyond 4 ms of verifying."""
    said = cause_of(ledger_of(outlasting(stream([plan(4)] * 24, branch_ns=4 * MS), 3 * MS)))
    assert said.cause.name == "empty slots"
    assert "9 of 10 branches a round are for outcomes that never hit in 23 rounds" in said.text


def test_empty_slots_of_padded_rows_need_a_measured_ar_step(stream, plan, ledger_of):
    plans = [plan(0, k=0), plan(4)] * 12
    ledger = ledger_of(stream(plans, decoder="sd", ceiling=None))
    assert name_of(ledger) is None
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=1 * MS)
    said = cause_of(ledger)
    assert said.text.startswith(
        "empty slots: verifying 1 of 5 rows takes 4.00 ms, all 4.00; an AR step 1.00."
    )


def test_weights_read_at_the_ceiling_are_no_padding(stream, plan, ledger_of):
    """The same rounds, but the target's bytes need 3.2 of the 4 ms: rows are free there."""
    ledger = ledger_of(stream([plan(0, k=0), plan(4)] * 12, decoder="sd", target_bytes=3_200_000_000))
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=3 * MS)
    assert name_of(ledger) != "empty slots"


# --- weak drafter, K too deep -------------------------------------------------------------------------------


def test_weak_drafter_states_acceptance_and_break_even(stream, plan, ledger_of):
    said = cause_of(ledger_of(stream([plan(0)] * 20, decoder="sd")))
    assert said.text == (
        "weak drafter: 0 % of judged tokens are right, τ 1.00 where break-even is 1.49: no K up to 4 pays."
    )


def test_weak_drafter_is_judged_by_the_measured_ar_step(stream, plan, ledger_of):
    ledger = ledger_of(stream([plan(0)] * 20, decoder="sd"))
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=2 * MS)
    assert "break-even is 3.05" in cause_of(ledger).text
    assert "6.10 ms/token against AR's 2.00" in cause_of(ledger).text


def test_drafter_that_pays_at_a_smaller_k_is_not_weak(stream, plan, ledger_of):
    """Half the tokens judged are right: τ 2 in 6.1 ms, but in 4.6 ms with one token drafted."""
    said = cause_of(ledger_of(stream([plan(1)] * 20, decoder="sd")))
    assert said.cause.name == "K too deep"
    assert "K 1 would give 1.33× the tokens a ms" in said.text


def test_k_is_not_too_deep_where_the_last_position_earns_its_time(stream, plan, ledger_of):
    assert name_of(ledger_of(stream([plan(4), plan(4), plan(2)] * 8, decoder="sd"))) is None


def test_k_is_not_too_deep_where_no_k_pays(stream, plan, ledger_of):
    """K 2 gives three tokens in 7.1 ms, K 4 in 12.1, but three AR steps take 6: drafting is what is dear."""
    ledger = ledger_of(stream([plan(2)] * 20, decoder="sd", draft_ns=8 * MS))
    assert name_of(ledger) == "K too deep"
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=2 * MS)
    said = cause_of(ledger)
    assert said.cause is None
    assert said.text.startswith("SD loses against AR here: 12.1 ms a round")
    assert said.text.endswith("drafting is exposed for 8.00 ms.")


def test_k_is_not_judged_by_a_few_long_drafts(stream, plan, ledger_of):
    assert name_of(ledger_of(stream([plan(1, k=8)] * 4 + [plan(2, k=2)] * 16, decoder="sd"))) is None


# --- verify-bound -------------------------------------------------------------------------------------------


def test_verify_bound_near_the_read_ceiling(stream, plan, ledger_of):
    """The target's bytes need 3.28 ms of a 4 ms verification."""
    said = cause_of(ledger_of(stream([plan(4)] * 20, target_bytes=3_200_000_000)))
    assert said.cause.name == "verify-bound"
    assert "of the read ceiling" in said.text
    assert "left to win there" in said.text


def test_verify_bound_needs_the_ceiling(stream, plan, ledger_of):
    assert name_of(ledger_of(stream([plan(4)] * 20, target_bytes=3_200_000_000, ceiling=None))) is None
    assert name_of(ledger_of(stream([plan(4)] * 20, target_bytes=2_000_000_000))) is None


# --- throttling ---------------------------------------------------------------------------------------------


def throttled_stream(stream, plan, *, by=2, clock=1_200, reasons=("power cap",), first=20):
    events = slowed(stream([plan(4)] * 60), first, by)
    held = lambda index: index >= first  # noqa: E731
    return sampled(events, lambda i: clock if held(i) else CLOCK, lambda i: reasons if held(i) else ())


def test_throttling_states_clocks_reasons_and_what_is_lost(stream, plan, ledger_of):
    said = cause_of(ledger_of(throttled_stream(stream, plan)), last=40)
    assert said.text == (
        "throttling: cuda:0 at 1,200 of 1,980 MHz (power cap), the target reads 46 % fewer bytes a second."
    )


def test_gain_of_throttling_is_that_of_the_whole_round(stream, plan, ledger_of):
    """Held rounds of 8.2 ms verify for 8 of them; at the rate before those would take 0.549 of that time.

    Of 2 GB of weights and a KV that grows by 5 MB a round, the held rounds read more than those before.
    """
    gain = cause_of(ledger_of(throttled_stream(stream, plan)), last=20).cause.gain
    before = sum(2_000 + 10 + 5 * i for i in range(20)) / 20 / 4
    held = sum(2_000 + 10 + 5 * i for i in range(40, 60)) / 20 / 8
    assert gain == pytest.approx(8.2 / (8.2 - 8 * (1 - held / before)))


def test_throttling_gives_way_to_what_costs_more(stream, plan, ledger_of):
    """Bytes/s fall by half, but no device works for most of each round."""
    events = slowed(gapped(stream([plan(4)] * 60), 30 * MS), 20, 2)
    held = sampled(events, lambda i: 1_200 if i >= 20 else CLOCK, lambda i: ("power cap",) if i >= 20 else ())
    assert name_of(ledger_of(held), last=40) == "launch-bound"


def test_throttling_without_a_reason_is_seen_by_the_clock(stream, plan, ledger_of):
    assert name_of(ledger_of(throttled_stream(stream, plan, reasons=())), last=40) == "throttling"


def test_clock_that_costs_no_bytes_is_no_throttling(stream, plan, ledger_of):
    assert name_of(ledger_of(throttled_stream(stream, plan, by=1)), last=40) is None


def test_chosen_clocks_are_no_throttling(stream, plan, ledger_of):
    events = throttled_stream(stream, plan, clock=CLOCK, reasons=("application clocks",))
    assert name_of(ledger_of(events), last=40) is None


def test_throttling_from_the_start_needs_reason_and_clock(stream, plan, ledger_of):
    """No unhindered round to compare with: the header's clock stands for the full one."""
    events = throttled_stream(stream, plan, first=0)
    assert name_of(ledger_of(events), last=40) is None  # nothing says that 1,980 MHz would be possible
    header = events[0]
    devices = tuple(msgspec.structs.replace(d, sm_clock_mhz=CLOCK) for d in header.devices)
    said = cause_of(ledger_of([msgspec.structs.replace(header, devices=devices), *events[1:]]), last=40)
    assert said.text == "throttling: cuda:0 at 1,200 of 1,980 MHz (power cap)."


# --- how it is said -----------------------------------------------------------------------------------------


def test_every_cause_brings_its_rule_first_among_the_formulas(stream, plan, ledger_of):
    said = cause_of(ledger_of(stream([plan(0)] * 20, decoder="sd")))
    assert said.formulas[0] is said.cause.formula
    assert said.formulas[0].name == "cause: weak drafter"


def test_cause_starts_both_sentences_and_the_short_one_fits(stream, plan, ledger_of):
    streams = [
        stream([plan(0)] * 20, decoder="sd"),
        stream([plan(1)] * 20, decoder="sd"),
        gapped(stream([plan(4)] * 20), 9_000 * MS),
        throttled_stream(stream, plan, by=9),
        stream([plan(4)] * 20, target_bytes=3_200_000_000),
    ]
    for events in streams:
        said = cause_of(ledger_of(events), last=40)
        assert said.text.startswith(f"{said.cause.name}: ")
        assert said.short.startswith(f"{said.cause.name}: ")
        assert len(said.short) <= SHORT_COLUMNS
