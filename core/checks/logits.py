"""A model's logits along a text, as its decoders compute them: a prompt's chunks, then rows of decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.passes import MAX_ROWS, Passes
from specmon.core.models.pool import LoadedModel
from specmon.core.models.prefill import chunk_plan
from specmon.kernels.rmsnorm.reference import rmsnorm

_HEAD_ROWS = 256  # at a time: logits of a whole chunk would not fit


class TextLogits:
    """Logits of one model, pass by pass; what is called last starts from where the call before ended.

    Shapes: R rows, V vocabulary; logits are fp32.
    """

    def __init__(self, loaded: LoadedModel, n_tokens: int, *, graphs: bool = True) -> None:
        model = loaded.model
        self._model = model
        kv = KvCache.of(
            model.config, n_slots=n_tokens + MAX_ROWS, dtype=loaded.recipe.kv, device=model.device
        )
        self._passes: Passes = loaded.open(kv, graphs=graphs)

    def prefill(self, ids: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """Run `ids` from position 0 as a prompt. Gives: the first position of each piece, and its logits [R, V]."""
        layers = len(self._model.layers)
        for start, length in chunk_plan(0, len(ids), self._passes.chunk):
            part = torch.tensor(ids[start : start + length], device=self._model.device)
            _, residual_ND = self._passes.prefill(part, start, (layers,))
            assert residual_ND is not None
            for first in range(0, length, _HEAD_ROWS):
                rows_RD = residual_ND[first : first + _HEAD_ROWS]
                hidden_RD = rmsnorm(rows_RD, self._model.norm, self._model.config.norm_eps)
                yield start + first, self._model.logits(hidden_RD).float()

    def decode(
        self, ids: Sequence[int], start: int, row_counts: Sequence[int]
    ) -> Iterator[tuple[int, Tensor]]:
        """Feed ids[start:], the rest being in the cache, in passes of `row_counts` rows, again and again.

        Gives: the first position of each pass, and its logits [R, V].
        """
        n_passes = 0
        while start < len(ids):
            fed = ids[start : start + row_counts[n_passes % len(row_counts)]]
            logits_RV = self._passes.rows(fed, start, (), logits=True).logits_RV
            assert logits_RV is not None
            yield start, logits_RV.float()
            start, n_passes = start + len(fed), n_passes + 1
