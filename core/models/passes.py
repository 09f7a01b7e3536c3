"""A model's passes over one sequence: prompt chunks, and rows of decode. Each backend has its own.

Shapes: R rows, N chunk tokens, V vocabulary, F features (taps · D).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk, Rows
from specmon.core.models.prefill import CHUNK
from specmon.core.models.transformer import Transformer
from specmon.kernels.head.reference import argmax_rows, top2_margin, top_rows

#: Rows of one decode pass: the recipe's fixed row count.
MAX_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class RowsOut:
    """What rows of decode give: each row's best token, and what acceptance and drafting need.

    `margins`: largest minus second-largest logit a row, `probs`: the best token's probability, where the backend
    computes them on its way. `logits_RV` is there where it was asked for, or costs nothing, until the next pass.
    `launches`: kernels, copies and graphs that the host launched, where they are counted. `ran`: when the device began and
    ended by its own clock (ns), where it stamps its passes.
    """

    greedy: list[int]
    margins: list[float] | None
    probs: list[float] | None
    logits_RV: Tensor | None
    features_RF: Tensor | None
    launches: int | None
    ran: tuple[int, int] | None

    def margin(self, row: int) -> float:
        if self.margins is not None:
            return self.margins[row]
        assert self.logits_RV is not None
        return top2_margin(self.logits_RV[row])


@dataclass(frozen=True, kw_only=True)
class ChainOut:
    """Tokens drafted one after the other: each one's probability, and its margin where that costs nothing.

    `logits_SV` [steps, V], where asked for, are those each token was chosen from; they are the caller's.
    `launches` and `ran` as in `RowsOut`.
    """

    tokens: list[int]
    probs: list[float]
    margins: list[float] | None
    logits_SV: Tensor | None
    launches: int | None
    ran: tuple[int, int] | None


class Passes(Protocol):
    """Forward passes of one sequence on its KV cache. The cursor is the caller's."""

    #: Tokens a prompt chunk has at most; part of the backend's version.
    chunk: int
    #: Whether rows that were begun run by themselves; else they run when they are waited for.
    runs_ahead: bool
    #: Whether the first use of a kind of pass captures a graph.
    captures: bool

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Run one chunk from position `start`. Returns: logits [1, V] after its last token, features [N, F] or None."""
        ...

    def begin_rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> None:
        """Ask for up to 16 rows from position `start`, each with the bits it would have alone; no pass until `end_rows`."""
        ...

    def end_rows(self) -> RowsOut:
        """Wait for the rows begun."""
        ...

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        """Run rows, from `begin_rows` to `end_rows`."""
        ...

    def chain(self, tokens: Sequence[int], start: int, steps: int, *, logits: bool) -> ChainOut:
        """Run up to 16 rows from position `start`, then one-row passes each fed with the winner before it.

        `steps` passes (1 … 16) name as many tokens, the first after the last row; the last one named is not fed.
        Raises: ValueError for rows or steps that cannot be.
        """
        ...


def check_chain(n_rows: int, steps: int) -> None:
    """Raises: ValueError for rows or steps that cannot be."""
    if not (1 <= n_rows <= MAX_ROWS and 1 <= steps <= MAX_ROWS):
        raise ValueError(f"a chain of {n_rows} rows and {steps} steps cannot be: 1 to {MAX_ROWS} each")


class ReferencePasses:
    """The plain-torch backend."""

    chunk = CHUNK
    captures = runs_ahead = False

    def __init__(self, model: Transformer, kv: KvCache) -> None:
        self._model, self._kv = model, kv
        self._begun: Callable[[], RowsOut] | None = None

    def begin_rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> None:
        self._begun = partial(self.rows, tokens, start, taps, logits=logits)  # run when they are waited for

    def end_rows(self) -> RowsOut:
        assert self._begun is not None
        begun, self._begun = self._begun, None
        return begun()

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        hidden, features = self._model.hidden(ids_N, self._kv, Chunk(start, len(ids_N)), taps)
        return self._model.logits(hidden[-1:]), features

    def rows(self, tokens: Sequence[int], start: int, taps: Sequence[int], *, logits: bool) -> RowsOut:
        logits_RV, features = self._rows(tokens, start, taps)
        return RowsOut(
            greedy=[int(i) for i in argmax_rows(logits_RV).tolist()],
            margins=None,
            probs=None,
            logits_RV=logits_RV,
            features_RF=features,
            launches=None,
            ran=None,
        )

    def chain(self, tokens: Sequence[int], start: int, steps: int, *, logits: bool) -> ChainOut:
        check_chain(len(tokens), steps)
        named: list[int] = []
        probs: list[float] = []
        seen: list[Tensor] = []
        fed = tokens
        for _ in range(steps):
            logits_RV, _ = self._rows(fed, start, ())
            start += len(fed)
            token, prob = top_rows(logits_RV[-1:], 1)
            named.append(int(token))
            probs.append(float(prob))
            seen.append(logits_RV[-1:])
            fed = named[-1:]
        return ChainOut(
            tokens=named,
            probs=probs,
            margins=None,
            logits_SV=torch.cat(seen) if logits else None,
            launches=None,
            ran=None,
        )

    def _rows(self, tokens: Sequence[int], start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Logits [R, V] and features [R, F]."""
        ids = torch.tensor(tokens, device=self._model.device)
        hidden, features = self._model.hidden(ids, self._kv, Rows(start, len(tokens)), taps)
        return self._model.logits(hidden), features
