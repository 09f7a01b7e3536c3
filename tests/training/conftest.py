"""Runs of a few steps on tiny models in fp32, and text a tiny target wrote once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.source import open_model
from specmon.core.training.config import TextSettings, TrainSettings
from specmon.core.training.forms import Decoder, frozen_decoder
from specmon.core.training.generate import Rows, RowWriter
from specmon.core.training.run import Place
from specmon.core.training.scripts import Script, scripts_of

CPU = torch.device("cpu")
ROW = 64


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def target(tiny: TinyModels) -> Decoder:
    return frozen_decoder(HfFolder(tiny.target()), CPU, torch.float32)


@pytest.fixture(scope="module")
def scripts(tiny: TinyModels) -> tuple[Script, ...]:
    """Rows of short and of long questions."""
    settings = TextSettings(target=str(tiny.target()), row_tokens=ROW)
    return scripts_of(settings, open_model(settings.target, tiny.root).tokenizer(), 640)


@pytest.fixture(scope="module")
def written(target: Decoder, scripts: tuple[Script, ...]) -> tuple[Rows, Rows]:
    """Text in short and in long rows."""
    with torch.no_grad():
        short, long = (
            RowWriter(target, s, n).write(3, lambda steps: None)
            for s, n in zip(scripts, (24, 6), strict=True)
        )
    return short, long


@pytest.fixture
def new_settings(tiny: TinyModels) -> Callable[..., TrainSettings]:
    """Makes the settings of a tiny run."""

    def build(kind: str = "draft", **changes: Any) -> TrainSettings:
        base: dict[str, Any] = {
            "kind": kind,
            "text": TextSettings(target=str(tiny.target()), row_tokens=ROW),
            "tokens": 3000,
            "steps": 4,
            "batch_tokens": 512,
            "learning_rate": 3e-3,
            "accept_weight": 0.0,
            "hidden": 64,
            "layers": 1,
            "draft_vocab": 128,
        }
        return TrainSettings(**base | changes)

    return build


@pytest.fixture
def new_place(
    tiny: TinyModels, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Place]:
    """Makes a run's folders; all runs of the tests share their text."""
    data = tmp_path_factory.getbasetemp() / "training-text"

    def build(name: str = "out", data: Path = data) -> Place:
        return Place(out=tmp_path / name, data=data, cache_dir=tiny.root)

    return build
