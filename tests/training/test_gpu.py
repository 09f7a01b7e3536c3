"""On CUDA devices: graphs write what the target chooses, and a run learns on one device as on two."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from tests.gpus import needs_gpu, needs_two
from tests.tiny_models import TinyModels
from torch.nn import functional as F

from specmon.core.models.hf_folder import HfFolder
from specmon.core.training.checkpoint import CurvePoint
from specmon.core.training.config import TrainSettings, Unwatched
from specmon.core.training.corpus import Corpus
from specmon.core.training.forms import frozen_decoder
from specmon.core.training.generate import RowWriter
from specmon.core.training.run import Place, train
from specmon.core.training.scripts import Script

NewSettings, NewPlace = Callable[..., TrainSettings], Callable[..., Place]


@pytest.mark.gpu
@needs_gpu
@torch.no_grad()
def test_graphs_write_what_the_target_chooses(tiny: TinyModels, scripts: tuple[Script, ...]) -> None:
    cuda = torch.device("cuda")
    target = frozen_decoder(HfFolder(tiny.target()), cuda, torch.float32)
    writer = RowWriter(target, scripts[1], 64)  # longer than one graph reaches

    one, again, other = (writer.write(seed, lambda steps: None) for seed in (1, 1, 2))

    assert torch.equal(one.tokens, again.tokens)
    assert not torch.equal(one.tokens, other.tokens)
    batch = Corpus([one], cuda).held_out(10**6)[0]
    hidden, _ = target(batch.tokens, batch.mask_BTT())
    chosen = F.linear(hidden, target.head_VD).argmax(dim=-1)
    greedy = batch.greedy[:, 1:]
    agree = (chosen[:, :-1] == batch.tokens[:, 1:])[greedy].float().mean()
    assert greedy.sum() > 100
    assert agree > 0.98  # sums differ in their order


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["draft", "eagle3", "block"])
def test_run_learns_on_a_gpu(new_settings: NewSettings, new_place: NewPlace, kind: str) -> None:
    place = new_place()

    train(new_settings(kind, steps=8), place, ("cuda:0",), Unwatched())

    curve = msgspec.json.decode((place.out / "curve.json").read_bytes(), type=list[CurvePoint])
    losses = [point.loss for point in curve if point.loss is not None]
    assert losses[-1] < losses[0]


@pytest.mark.gpu2
@needs_two
def test_two_gpus_learn_what_one_does(new_settings: NewSettings, new_place: NewPlace) -> None:
    settings, alone, together = new_settings(steps=3), new_place("alone"), new_place("together")
    train(settings, alone, ("cuda:0",), Unwatched())

    train(settings, together, ("cuda:0", "cuda:1"), Unwatched())

    one, other = load_file(alone.checkpoint), load_file(together.checkpoint)
    for name in (name for name in one if name.startswith("weight.")):
        assert (one[name] - other[name]).abs().mean() < 5e-4  # bf16 matmuls of other sizes, lr 3e-3
