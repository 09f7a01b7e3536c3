"""A run that goes on from a drafter's folder, and features scaled while they are learnt from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch

from specmon.core.errors import UsageError
from specmon.core.training.checkpoint import CurvePoint
from specmon.core.training.config import TrainSettings, Unwatched
from specmon.core.training.forms import Fuse
from specmon.core.training.run import Place, train

NewSettings, NewPlace = Callable[..., TrainSettings], Callable[..., Place]
CPU = ("cpu",)


def first_point(place: Place) -> CurvePoint:
    return msgspec.json.decode((place.out / "curve.json").read_bytes(), type=list[CurvePoint])[0]


@pytest.mark.parametrize("form", [0, 1], ids=["bf16", "int8"])
@pytest.mark.parametrize("kind", ["draft", "eagle3", "block"])
def test_run_begins_with_what_the_folder_can(
    new_settings: NewSettings, new_place: NewPlace, kind: str, form: int
) -> None:
    before = train(new_settings(kind, steps=8), new_place("before"), CPU, Unwatched())[form]

    after = new_place("after")
    train(new_settings(kind, steps=1, draft_vocab=50, start=str(before.folder)), after, CPU, Unwatched())

    assert first_point(after).held_out == before.held_out


def test_folder_of_another_kind_or_shape_is_refused(new_settings: NewSettings, new_place: NewPlace) -> None:
    draft = train(new_settings("draft", steps=1), new_place("draft"), CPU, Unwatched())[0]

    with pytest.raises(UsageError, match="holds a draft model, not an EAGLE-3 head"):
        train(new_settings("eagle3", start=str(draft.folder)), new_place("head"), CPU, Unwatched())
    with pytest.raises(UsageError, match=r"has no tensor model\.layers\.1\..* of another shape"):
        train(new_settings("draft", layers=2, start=str(draft.folder)), new_place("deep"), CPU, Unwatched())


def test_scales_go_into_what_is_stored() -> None:
    torch.manual_seed(0)
    features = torch.randn(64, 6) * torch.tensor([300.0, 40.0, 1.0, 0.3, 0.02, 1.0])
    fuse = Fuse(6, 4)

    fuse.measure(features)

    assert (features * fuse.scale).abs().median(dim=0).values.log2().abs().max() <= 0.5
    stored = fuse.state_dict()["weight"]
    torch.testing.assert_close(features @ stored.T, fuse(features))
    other = Fuse(6, 4)
    other.measure(features)
    other.load_state_dict({"weight": stored})
    assert torch.equal(other.weight, fuse.weight)
