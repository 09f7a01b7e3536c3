"""A model's passes over one sequence: prompt chunks, and rows of decode. Each backend has its own.

Shapes: R rows, N chunk tokens, V vocabulary, F features (taps · D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk, Rows
from specmon.core.models.prefill import CHUNK
from specmon.core.models.transformer import Transformer
from specmon.kernels.head.reference import argmax_rows, top2_margin

#: Rows of one decode pass: the recipe's fixed row count.
MAX_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class RowsOut:
    """What rows of decode give: each row's best token, and what acceptance and drafting need.

    `margins`: largest minus second-largest logit a row, where the backend computes them on its way.
    `logits_RV` is there where it was asked for, or costs nothing.
    """

    greedy: list[int]
    margins: list[float] | None
    logits_RV: Tensor | None
    features_RF: Tensor | None

    def margin(self, row: int) -> float:
        if self.margins is not None:
            return self.margins[row]
        assert self.logits_RV is not None
        return top2_margin(self.logits_RV[row])


class Passes(Protocol):
    """Forward passes of one sequence on its KV cache. The cursor is the caller's."""

    #: Tokens a prompt chunk has at most; part of the backend's version.
    chunk: int

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Run one chunk from position `start`. Returns: logits [1, V] after its last token, features [N, F] or None."""
        ...

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        """Run up to 16 rows from position `start`, each with the bits it would have alone."""
        ...


class ReferencePasses:
    """The plain-torch backend."""

    chunk = CHUNK

    def __init__(self, model: Transformer, kv: KvCache) -> None:
        self._model, self._kv = model, kv

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        hidden, features = self._model.hidden(ids_N, self._kv, Chunk(start, len(ids_N)), taps)
        return self._model.logits(hidden[-1:]), features

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        ids = torch.tensor(tokens, device=self._model.device)
        hidden, features = self._model.hidden(ids, self._kv, Rows(start, len(tokens)), taps)
        logits_RV = self._model.logits(hidden)
        greedy = [int(i) for i in argmax_rows(logits_RV).tolist()]
        return RowsOut(greedy=greedy, margins=None, logits_RV=logits_RV, features_RF=features)
