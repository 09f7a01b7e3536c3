"""A drafter that a run goes on from: what its folder holds, for the training form."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from specmon.core.drafters.block_file import block_to_target, is_block_drafter
from specmon.core.drafters.eagle3_file import PublishedHead, is_eagle3
from specmon.core.errors import UsageError
from specmon.core.models.build import Builder
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.recipe import Recipe
from specmon.core.training.config import Kind
from specmon.core.training.learner import Learner, put

_CALLED = {"draft": "a draft model", "eagle3": "an EAGLE-3 head", "block": "a block drafter"}
_MAPS = {"d2t", "t2d"}


class Start:
    """A folder's drafter of `kind`. Raises: SpecmonError, UsageError where it is none."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        file = HfFolder(folder)
        found = _kind_of(file)
        if found != kind:
            raise UsageError(f"--from names {folder}, which holds {_CALLED[found]}, not {_CALLED[kind]}.")
        self._file = PublishedHead(file) if kind == "eagle3" else file

    def draft_ids(self, vocab_size: int) -> Tensor:
        """The target's ids of its vocabulary [V'] int64. Raises: SpecmonError where it has no map into `vocab_size`."""
        file = self._file
        return (
            file.to_target(vocab_size)
            if isinstance(file, PublishedHead)
            else block_to_target(file, vocab_size)
        )

    def put_into(self, learner: Learner) -> None:
        """Give the learner these weights.

        Raises: UsageError where it has others; SpecmonError where they are no numbers.
        """
        ours = {name: tuple(tensor.shape) for name, tensor in learner.tensors().items() if name not in _MAPS}
        theirs = {name for name in self._file.names() if not name.endswith("_scale")} - _MAPS
        odd = min(theirs ^ ours.keys(), default=None)
        if odd is not None:
            here = "has a tensor" if odd in theirs else "has no tensor"
            raise UsageError(
                f"{self._file.where} {here} {odd}: it is of another shape than this run's drafter."
            )
        fp32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
        builder = Builder(self._file, fp32, "cpu")
        put({name: builder.dense(name, shape) for name, shape in ours.items()}, learner.module)


def _kind_of(file: HfFolder) -> Kind:
    if is_eagle3(file.raw_config):
        return "eagle3"
    return "block" if is_block_drafter(file.raw_config) else "draft"
