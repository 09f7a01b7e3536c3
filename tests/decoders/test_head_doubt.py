"""A lane tries an EAGLE-3 head whose card leaves a doubt, and says how it should be taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.drafters.published_heads import fitted
from tests.tiny_models import TinyModels

from specmon.core.decoders import setup
from specmon.core.drafters.head_check import greedy_sample
from specmon.core.models.pool import unwatched

from .harness import Bench


def test_head_of_another_rope_base_is_named_in_the_notes(
    tiny: TinyModels, bench: Bench, tmp_path: Path
) -> None:
    target, said = bench.pool.target(str(tiny.target()), "fp32", "cpu:0", unwatched), []
    wrong = {"rope_theta": 3.0, "rope_type": "default"}
    with torch.inference_mode():
        head = fitted(tiny, target, greedy_sample(target), tmp_path, (0, 1, 2), rope_parameters=wrong)

    lane = bench.lane(tiny.target(), "sd", draft=head.where, progress=lambda what, part: said.append(what))

    assert "trying the head: its RoPE base is 3, the target's 10000" in said
    (note,) = [note for note in lane.lane.notes if "EAGLE-3" in note]
    assert note.endswith("with the target's RoPE base 10000: write rope_theta 10000 into its config.json.")


def test_head_without_a_doubt_is_not_tried(
    tiny: TinyModels, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "check_head", lambda *_: pytest.fail("it was tried"))

    assert not any(
        "EAGLE-3" in note for note in bench.lane(tiny.target(), "sd", draft=str(tiny.eagle3())).lane.notes
    )
