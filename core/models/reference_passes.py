"""A model's passes in plain torch: every device, every recipe that has library kernels, and what others are held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specmon.core.models.kv import KvCache
from specmon.core.models.passes import (
    BranchesOut,
    BranchStart,
    ChainOut,
    LikelyOut,
    Passes,
    Pick,
    RowsOut,
    check_branches,
    check_chain,
    check_places,
)
from specmon.core.models.placement import Chunk, Rows, Tree, branch_step
from specmon.core.models.prefill import CHUNK
from specmon.core.models.transformer import Transformer
from specmon.kernels.head.reference import argmax_rows, pick_reference, top_rows

if TYPE_CHECKING:
    from specmon.kernels.relay.board import Board


def likely_then_branches(
    passes: Passes,
    seen: Sequence[Tensor],
    token: int | None,
    position: int,
    count: int,
    picks: Sequence[Pick],
    steps: int,
) -> tuple[LikelyOut, BranchesOut]:
    """`Passes.likely_branches` in two pieces."""
    likely = passes.likely(seen, token, position, count)
    tokens = pick_reference(torch.tensor(likely.tokens), [(p.place, p.rank, p.proposed) for p in picks])
    starts = [
        BranchStart(prefix=p.prefix, token=t, slots=p.slots) for p, t in zip(picks, tokens, strict=True)
    ]
    return likely, passes.branches(starts, steps)


class ReferencePasses:
    """The plain-torch backend."""

    chunk = CHUNK
    first_chunks: tuple[int, ...] = ()
    captures = runs_ahead = whole_branches = False

    def __init__(self, model: Transformer, kv: KvCache) -> None:
        self._model, self._kv = model, kv
        self._begun: Callable[[], RowsOut] | None = None

    def queued_rounds(self, board: Board, memory: Tensor, taps: Sequence[int]) -> None:
        """The host runs each."""

    def begin_rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        *,
        logits: bool,
        parents: Sequence[int] | None = None,
    ) -> None:
        self._begun = partial(
            self.rows, tokens, start, taps, logits=logits, parents=parents
        )  # run when waited for

    def end_rows(self) -> RowsOut:
        assert self._begun is not None
        begun, self._begun = self._begun, None
        return begun()

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        hidden, features = self._model.hidden(ids_N, self._kv, Chunk(start, len(ids_N)), taps)
        return self._model.logits(hidden[-1:]), features

    def rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        *,
        logits: bool,
        parents: Sequence[int] | None = None,
    ) -> RowsOut:
        logits_RV, features = self._rows(tokens, start, taps, parents)
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

    def tree(self, tokens: Sequence[int], start: int, depth: int, width: int) -> None:
        """The host feeds each level."""

    def branches(self, starts: Sequence[BranchStart], steps: int, batch: int = 0) -> BranchesOut:
        check_branches(starts, steps, self._kv.n_slots)
        device = self._model.device
        fed = torch.tensor([start.token for start in starts], device=device)
        prefixes, own = [start.prefix for start in starts], [start.slots for start in starts]
        named: list[Tensor] = []
        probs: list[Tensor] = []
        seen: list[Tensor] = []
        for step in range(steps):
            placement = branch_step(prefixes, own, step, device)
            hidden, _ = self._model.hidden(fed, self._kv, placement)
            seen.append(self._model.logits(hidden))
            token, prob = top_rows(seen[-1], 1)
            fed = token[:, 0]
            named.append(fed)
            probs.append(prob[:, 0])
        return BranchesOut(
            tokens=torch.stack(named, dim=1).tolist(),
            probs=torch.stack(probs, dim=1).tolist(),
            logits_KBV=torch.stack(seen),
            launches=None,
            ran=None,
        )

    def likely(self, seen: Sequence[Tensor], token: int | None, position: int, count: int) -> LikelyOut:
        check_places(seen, token)
        fed = [] if token is None else [self._rows([token], position, ())[0]]
        logits_PV = torch.cat([*seen, *fed])
        tokens, probs = top_rows(logits_PV, min(count, logits_PV.shape[1]))
        return LikelyOut(tokens=tokens.tolist(), probs=probs.tolist(), logits_PV=logits_PV, launches=None)

    def likely_branches(
        self,
        seen: Sequence[Tensor],
        token: int | None,
        position: int,
        count: int,
        picks: Sequence[Pick],
        steps: int,
    ) -> tuple[LikelyOut, BranchesOut]:
        return likely_then_branches(self, seen, token, position, count, picks, steps)

    def move(self, slots: Sequence[int], first: int) -> None:
        device = self._model.device
        into = torch.arange(first, first + len(slots), device=device)
        self._kv.move(torch.tensor(slots, device=device), into)

    def _rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        parents: Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Logits [R, V] and features [R, F]."""
        ids = torch.tensor(tokens, device=self._model.device)
        placement = Rows(start, len(tokens)) if parents is None else Tree(start, tuple(parents))
        hidden, features = self._model.hidden(ids, self._kv, placement, taps)
        return self._model.logits(hidden), features
