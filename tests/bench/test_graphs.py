"""`--graphs off` reaches the passes of the target and of the draft, and the lane says what it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tiny_models import TinyModels

from specmon.core.decoders.lane import DecodeLane
from specmon.core.decoders.setup import open_link
from specmon.core.drafters.registry import DrafterSpec
from specmon.core.engine.messages import LaneConfig
from specmon.core.errors import UsageError
from specmon.core.models import pool
from specmon.tui.commands.options import lane_config

OPTIONS = {"target": "t", "draft": "d", "recipe": "auto", "devices": "auto", "draft_len": 4, "fan_out": "1"}


@pytest.mark.parametrize("graphs", [True, False])
def test_streamed_passes_are_opened_with_or_without_graphs(
    monkeypatch: pytest.MonkeyPatch, graphs: bool
) -> None:
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "specmon.core.models.streamed.StreamedPasses", lambda model, kv, **options: opened.append(options)
    )
    pool.open_passes(None, object(), None, graphs=graphs)  # type: ignore[arg-type]
    assert opened == [{"graphs": graphs}]


def test_lane_hands_its_choice_to_target_and_drafter_and_says_what_it_changes(
    tiny: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    real = pool.open_passes

    def opened(*arguments: Any, graphs: bool = True) -> Any:
        asked.append(graphs)
        return real(*arguments, graphs=graphs)

    for place in ("specmon.core.models.pool", "specmon.core.drafters.registry"):
        monkeypatch.setattr(f"{place}.open_passes", opened)
    config = LaneConfig(
        decoder="sd",
        target=str(tiny.target()),
        draft=str(tiny.draft()),
        recipe="fp32",
        devices="cpu:0",
        graphs=False,
    )
    lane = DecodeLane(
        config, pool=pool.ModelPool(tmp_path), progress=lambda what, part: None, clock=lambda: 0
    )
    lane.close()
    assert asked == [False, False]
    assert "CUDA graphs are off: this backend captures none anyway." in lane.notes


def test_drafter_spec_of_a_link_carries_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    specs: list[DrafterSpec] = []

    def build(spec: DrafterSpec, progress: Any) -> Any:
        specs.append(spec)
        raise UsageError("enough")

    monkeypatch.setattr("specmon.core.decoders.setup.build_drafter", build)
    with pytest.raises(UsageError):
        open_link(
            LaneConfig(decoder="sd", graphs=False),
            ("cpu:0",),
            tmp_path,
            lambda: 0,
            {},
            lambda what, part: None,
        )
    assert [spec.graphs for spec in specs] == [False]


def test_option_takes_on_and_off_only() -> None:
    assert lane_config(decoder="ar", graphs="off", **OPTIONS).graphs is False  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes on or off"):
        lane_config(decoder="ar", graphs="no", **OPTIONS)  # type: ignore[arg-type]
