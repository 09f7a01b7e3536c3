"""A target whose matmuls several devices share: same tokens, and each device's bytes and time are told."""

from __future__ import annotations

import pytest
from tests.tiny_models import TinyModels

from specmon.core.errors import UsageError

from .harness import Bench

THREE = "cpu:0,cpu:1,cpu:2"
ASKED = {"raw": True, "max_new_tokens": 40}


@pytest.mark.parametrize("decoder", ["ar", "sd", "ssd"])
def test_target_on_two_devices_emits_the_tokens_of_one(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    target = tiny.with_words(tiny.target())
    found = bench.lane(target, decoder, devices=THREE).decode("t9 t8 t7 t9 t8", **ASKED)

    assert found.tokens == bench.lane(target).decode("t9 t8 t7 t9 t8", **ASKED).tokens


def test_each_device_reads_its_share_and_works_all_along(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.lane(tiny.target(), "sd", devices=THREE, draft=str(tiny.draft()))
    whole = bench.lane(tiny.target()).lane.describe(0, 0).target_weight_bytes
    assert whole is not None

    round_ = lane.decode().rounds[0]
    first, second, draft = round_.bytes

    assert first.weights + second.weights == whole
    assert first.weights == pytest.approx(second.weights, rel=0.02)
    assert (first.device, second.device, draft.device) == (0, 1, 2)
    assert {span.device for span in round_.spans if span.kind == "verify"} == {0, 1}
    assert {span.device for span in round_.spans if span.kind == "draft"} == {2}


def test_ar_has_no_draft_device(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.lane(tiny.target(), devices=THREE)

    assert lane.lane.describe(0, 0).devices == ("cpu:0", "cpu:1")
    assert [share.device for share in lane.decode().rounds[0].bytes] == [0, 1]


@pytest.mark.parametrize("wanted", [{"recipe": "q4"}, {"backend": "triton", "recipe": "bf16"}])
def test_kernels_of_one_device_are_refused(tiny: TinyModels, bench: Bench, wanted: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="on several devices"):
        bench.lane(tiny.target(), devices=THREE, **wanted)
