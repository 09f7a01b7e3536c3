"""What a check speaks for. Torch-free."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["agreement", "reference", "quality"]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What decides a lane's numbers, its decoder, K and fan-out aside. `trees`: whether drafts are trees.

    target: fingerprint of its weights. draft: its name and, for a model, the fingerprint; None where nothing drafts.
    backend: with its version. devices: their kinds, the target's first ("cuda", "cuda"). code: of `code_state`.
    """

    target: str
    draft: str | None
    recipe: str
    backend: str
    devices: tuple[str, ...]
    code: str
    trees: bool = False

    @property
    def of_target(self) -> Subject:
        """The target alone: what `reference` and `quality` look at."""
        return msgspec.structs.replace(self, draft=None, trees=False, devices=self.devices[:1])


def speaks_for(kind: Kind, checked: Subject, lane: Subject) -> bool:
    """Whether a check of that kind of `checked` says something about a lane of `lane`.

    Agreement with any draft speaks for AR, which is a part of it.
    """
    if kind == "agreement" and lane.draft is not None:
        return checked == lane
    return checked.of_target == lane.of_target


def device_kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """("cuda", "cuda") of ("cuda:0", "cuda:1")."""
    return tuple(name.partition(":")[0] for name in names)
