import pytest

from specmon.core import roofline
from specmon.core.events import Lane


def test_pass_reads_weights_and_kv():
    lane = Lane(t=0, decoder="sd", target="t", target_weight_bytes=1000, kv_bytes_per_token=3)
    assert roofline.target_bytes(lane, 10) == 1030
    assert roofline.draft_bytes(lane, 10) is None


def test_floor_is_bytes_over_ceiling():
    assert roofline.floor_ns(4_390_000_000, 4.39e12) == pytest.approx(1_000_000)


def test_ssd_ceiling_and_break_even_as_on_the_main_screen():
    assert roofline.ssd_ceiling(4, 0.45, 3.90, 1.90) == pytest.approx(1.4615, abs=1e-4)
    assert roofline.ssd_ceiling(4, 0.45, 3.90, 5.70) == pytest.approx(1.0)
    assert roofline.break_even_tau(4.25, 3.90) == pytest.approx(1.0897, abs=1e-4)


def test_what_if_agrees_with_the_ceiling_where_every_round_hits():
    parts = {"draft_len": 4, "tokens_per_round": 2.54, "t_v": 3.9e6, "t_d": 0.45e6}
    sd = roofline.WhatIf(decoder="sd", **parts)
    ssd = roofline.WhatIf(decoder="ssd", t_branch=1.9e6, hit_rate=1.0, **parts)
    assert sd.round_ns == pytest.approx(5.7e6)
    assert ssd.tokens_per_s / sd.tokens_per_s == pytest.approx(roofline.ssd_ceiling(4, 0.45, 3.9, 1.9))
    missing = roofline.WhatIf(decoder="ssd", t_branch=1.9e6, hit_rate=0.0, **parts)
    assert missing.round_ns == pytest.approx(sd.round_ns)
    assert roofline.WhatIf(decoder="ar", draft_len=0, tokens_per_round=1.0, t_v=3.9e6).round_ns == 3.9e6


@pytest.mark.parametrize(
    ("decoder", "devices", "n_target"),
    [
        ("ar", ("a",), 1),
        ("ar", ("a", "b"), 2),
        ("ssd", ("a",), 1),
        ("ssd", ("a", "b"), 1),
        ("sd", ("a", "b", "c"), 2),
    ],
)
def test_devices_that_share_the_target_read_a_share_each(decoder, devices, n_target):
    lane = Lane(
        t=0, decoder=decoder, target="t", devices=devices, target_weight_bytes=1001, kv_bytes_per_token=3
    )

    assert lane.n_target_devices == n_target
    assert roofline.target_bytes(lane, 10) == -(-1001 // n_target) + 30
