import msgspec
import pytest

from specmon.core.events import Round, Telemetry
from specmon.core.metrics import bandwidth
from specmon.core.metrics.bandwidth import (
    CACHE_RESIDENT,
    NO_CEILING,
    device_bandwidths,
    floor_ms_per_token,
    sol_fraction,
)

GB = 10**9


def test_bandwidth_by_hand(stream, plan, ledger_of):
    """Two hit rounds: the first drafts for 2 ms, both verify for 4 and accept for 0.1 ms: 10.2 ms."""
    turn = ledger_of(stream([plan(1), plan(0)])).lanes[0].turns[0]
    target, draft = device_bandwidths(turn, {})
    kv_bytes = 10 * 1_000_000 + 12 * 1_000_000
    assert target.n_bytes == 4 * GB + kv_bytes
    assert (target.whole_ns, target.busy_ns) == (10_200_000, 8_200_000)
    assert target.whole == target.n_bytes * 10**9 / 10_200_000
    assert target.busy == target.n_bytes * 10**9 / 8_200_000
    assert target.whole_fraction == pytest.approx(target.whole / 1e12)
    assert (draft.n_bytes, draft.busy_ns) == (GB, 2_000_000 + 2 * 3_000_000)
    assert not target.shares_ceiling


def test_bandwidth_looks_at_the_last_rounds(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1)] * 5, decoder="sd")).lanes[0].turns[0]
    assert device_bandwidths(turn, {}, last=2)[1].n_bytes == GB


def test_no_ceiling_gives_rates_but_no_fraction(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1)] * 2, ceiling=None)).lanes[0].turns[0]
    target = device_bandwidths(turn, {})[0]
    assert target.whole is not None
    assert (target.whole_fraction, target.busy_fraction, target.no_fraction) == (None, None, NO_CEILING)
    assert sol_fraction(turn) is None
    assert floor_ms_per_token(turn) is None


def test_cache_resident_model_has_no_fraction(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1)] * 2, llc_bytes=10 * GB)).lanes[0].turns[0]
    assert [d.no_fraction for d in device_bandwidths(turn, {})] == [CACHE_RESIDENT] * 2
    assert sol_fraction(turn) is None


def test_cache_holds_the_draft_but_not_the_target(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1)] * 2, llc_bytes=GB)).lanes[0].turns[0]
    assert [d.no_fraction for d in device_bandwidths(turn, {})] == [None, CACHE_RESIDENT]


def test_cpu_devices_share_one_ceiling_and_one_cache(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1)] * 2, llc_bytes=GB, devices=("cpu:0", "cpu:1"))).lanes[0].turns[0]
    devices = device_bandwidths(turn, {})
    assert [d.shares_ceiling for d in devices] == [True, True]
    assert [d.no_fraction for d in devices] == [None, None]


def test_gpm_stands_beside_the_analytic_figure_or_says_why_not(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1)] * 2)).lanes[0].turns[0]
    failed = Telemetry(t=5, device="cuda:1", note="counter failed at 3.1 s")
    samples = {"cuda:0": Telemetry(t=5, device="cuda:0", dram_fraction=0.75), "cuda:1": failed}
    target, draft = device_bandwidths(turn, samples)
    assert (target.gpm_fraction, target.gpm_note) == (0.75, None)
    assert (draft.gpm_fraction, draft.gpm_note) == (None, "counter failed at 3.1 s")
    assert device_bandwidths(turn, {})[0].gpm_note == "no sample yet"


def test_sol_fraction_is_the_targets_floor_over_round_time(stream, plan, ledger_of):
    turn = ledger_of(stream([plan(1), plan(0)])).lanes[0].turns[0]
    floor_ns = (4 * GB + 22_000_000) * 10**9 / 1e12
    assert sol_fraction(turn) == floor_ns / 10_200_000
    assert floor_ms_per_token(turn) == floor_ns / (1_000_000 * 3)


def test_sol_fraction_on_one_device_leaves_the_drafts_bytes_out(stream, plan, ledger_of):
    one = ledger_of(stream([plan(1), plan(0)], decoder="sd", devices=("cuda:0",))).lanes[0].turns[0]
    two = ledger_of(stream([plan(1), plan(0)], decoder="sd")).lanes[0].turns[0]
    assert sol_fraction(one) == sol_fraction(two)
    assert device_bandwidths(one, {})[0].n_bytes == device_bandwidths(two, {})[0].n_bytes + GB


def test_target_bytes_unknown_gives_no_floor(stream, plan, ledger_of):
    events = [
        msgspec.structs.replace(e, bytes=()) if isinstance(e, Round) else e
        for e in stream([plan(1)] * 2, target_bytes=None)
    ]
    turn = ledger_of(events).lanes[0].turns[0]
    assert bandwidth.target_round_bytes(turn, 0) is None
    assert sol_fraction(turn) is None
