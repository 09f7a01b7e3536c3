"""A head's self-test names the reading that the head was made for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.drafters.head_check import Sample, check_head, doubts, greedy_sample
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.pool import LoadedModel, ModelPool, unwatched

from .published_heads import Card, changed, fitted, read_head, write_head


@pytest.fixture(scope="module")
def target(tiny: TinyModels) -> LoadedModel:
    return ModelPool(tiny.root).target(str(tiny.target()), "fp32", "cpu:0", unwatched)


@pytest.fixture(scope="module")
def sample(target: LoadedModel) -> Sample:
    return greedy_sample(target)


def said(*layers: int) -> Card:
    return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(layers)}}


def test_head_taken_as_it_was_made_is_fine(
    tiny: TinyModels, target: LoadedModel, sample: Sample, tmp_path: Path
) -> None:
    file = fitted(tiny, target, sample, tmp_path, (0, 1, 2))

    report = check_head(file, target)

    assert report.trials[0].share > 0.9
    assert all(trial.share < 0.6 for trial in report.trials[1:])
    assert report.warning is None
    assert doubts(file, target.model.config) == []


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "layers one too low": (
        {"taps": (1, 2, 3), **said(0, 1, 2)},
        "write eagle_aux_hidden_state_layer_ids [1, 2, 3] into its config.json",
    ),
    "layers one too high": ({"taps": (0, 1, 2), **said(1, 2, 3)}, "features of layers [0, 1, 2]"),
    "not the usual layers": ({"taps": (2, 1, 0), **said(0, 1, 2)}, "features of layers [2, 1, 0]"),
    "after the norm": ({"taps": (0, 1, 2), "normed": True}, "features taken after the norm"),
    "wrong theta": (
        {"taps": (0, 1, 2), "rope_parameters": {"rope_theta": 3.0, "rope_type": "default"}},
        "write rope_theta 10000 into its config.json",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_better_reading_is_named(
    tiny: TinyModels, target: LoadedModel, sample: Sample, tmp_path: Path, case: str
) -> None:
    how, words = CASES[case]

    report = check_head(fitted(tiny, target, sample, tmp_path, **how), target)

    assert report.better is not None
    assert report.better.share > 0.9
    assert report.warning is not None
    assert words in report.warning
    assert f"{report.trials[0].share:.0%} of the time with features of layers" in report.warning


def test_map_that_reads_both_ways_is_tried_both_ways(
    tiny: TinyModels, target: LoadedModel, sample: Sample, tmp_path: Path
) -> None:
    """A d2t of every other id, stored as ids: as differences it would be valid too."""
    file = fitted(tiny, target, sample, tmp_path, (0, 1, 2))
    weights, card = read_head(file.folder)
    known = sorted({*sample.tokens, *range(0, 150, 2)})
    ids = [i for i in known if i < 150]
    weights["lm_head.weight"] = weights["lm_head.weight"][ids]
    weights["d2t"] = torch.tensor(ids)
    both = HfFolder(write_head(tmp_path / "both", weights, card))

    report = check_head(both, target)

    assert doubts(both, target.model.config) == ["its d2t may hold differences or token ids"]
    assert report.trials[-1].reading.what == "d2t read as token ids"
    assert report.trials[-1].accepted > report.trials[0].accepted


@pytest.mark.parametrize(
    ("card", "doubt"),
    [
        (said(1, 2, 3), "it takes the last layer's output"),
        ({"rope_parameters": {"rope_theta": 500.0}}, "its RoPE base is 500, the target's 10000"),
    ],
)
def test_doubts_are_said(
    tiny: TinyModels, target: LoadedModel, tmp_path: Path, card: Card, doubt: str
) -> None:
    file = HfFolder(changed(tiny, tmp_path / "head", lambda w, raw: raw.update(card)))

    assert any(said.startswith(doubt) for said in doubts(file, target.model.config))


def test_layers_counted_by_their_output_are_doubted(
    tiny: TinyModels, target: LoadedModel, tmp_path: Path
) -> None:
    """SGLang's [1, 14, 26] are the usual [2, 15, 27] of 30 layers."""
    card = said(1, 14, 26)
    file = HfFolder(changed(tiny, tmp_path / "head", lambda w, raw: raw.update(card)))

    found = doubts(file, replace(target.model.config, n_layers=30))

    assert found == ["its layers [1, 14, 26] may be counted by their output: [2, 15, 27] by their input"]


def test_head_that_is_right_about_nothing_is_named(
    tiny: TinyModels, target: LoadedModel, sample: Sample, tmp_path: Path
) -> None:
    def elsewhere(weights: dict[str, torch.Tensor], card: Card) -> None:
        """One token wins everywhere, and it is not in the target's text."""
        [own] = (weights["d2t"] + torch.arange(len(weights["d2t"]))).eq(absent).nonzero().flatten().tolist()
        weights["lm_head.weight"].zero_()
        weights["norm.weight"].zero_()
        weights["d2t"][[0, own]] = torch.tensor([absent, -own])  # ties go to the first

    text = set(sample.tokens)
    absent = next(token for token in range(2, 300, 2) if token not in text)
    file = HfFolder(changed(tiny, tmp_path / "head", elsewhere))

    report = check_head(file, target)

    assert {trial.accepted for trial in report.trials} == {0}
    assert report.warning is not None
    assert "is right about none of 48 tokens in any reading" in report.warning
