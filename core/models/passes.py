"""A model's passes over one sequence: prompt chunks, and rows of decode. Each backend has its own.

Shapes: R rows, N chunk tokens, V vocabulary, F features (taps · D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
from torch import Tensor

from specmon.kernels.head.reference import top2_margin
from specmon.kernels.tree.reference import Level

if TYPE_CHECKING:
    from specmon.core.models.queued import QueuedRounds
    from specmon.kernels.relay.board import Board
    from specmon.kernels.stream.winners import Won

#: Rows of one decode pass: the recipe's fixed row count.
MAX_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class RowsOut:
    """What rows of decode give: each row's best token, and what acceptance and drafting need.

    `margins`: largest minus second-largest logit a row, `probs`: the best token's probability, where the backend
    computes them on its way. `logits_RV` is there where it was asked for, or costs nothing; it and `features_RF` stay until
    the next pass.
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

    @classmethod
    def of(
        cls,
        won: Won,
        n_rows: int,
        launches: int | None,
        *,
        logits_RV: Tensor | None = None,
        features_RF: Tensor | None = None,
    ) -> RowsOut:
        """What a pass of `n_rows` left where the host reads it."""
        return cls(
            greedy=won.tokens[0, :n_rows].tolist(),
            margins=won.margins[0, :n_rows].tolist(),
            probs=won.probs[0, :n_rows].tolist(),
            logits_RV=logits_RV,
            features_RF=features_RF,
            launches=launches,
            ran=won.ran(1),
        )

    def margin(self, row: int) -> float:
        if self.margins is not None:
            return self.margins[row]
        assert self.logits_RV is not None
        return top2_margin(self.logits_RV[row])


@dataclass(frozen=True, kw_only=True)
class ChainOut:
    """Tokens drafted one after the other: each one's probability, and its margin where that costs nothing.

    `logits_SV` [steps, V], where asked for, are those each token was chosen from; they stay until others are asked for.
    `launches` and `ran` as in `RowsOut`.
    """

    tokens: list[int]
    probs: list[float]
    margins: list[float] | None
    logits_SV: Tensor | None
    launches: int | None
    ran: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class TreeOut:
    """A drafted tree, level by level. `launches` and `ran` as in `RowsOut`."""

    levels: list[Level]
    launches: int | None
    ran: tuple[int, int] | None


class BranchStart(msgspec.Struct, frozen=True, kw_only=True):
    """A branch: `token` follows the first `prefix` positions of the main line; `slots`: scratch, one for each step."""

    prefix: int
    token: int
    slots: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class BranchesOut:
    """Tokens [B][K] drafted along each of B branches, and their probabilities alike.

    `logits_KBV` [K, B, V] are those each token was chosen from; they stay until this batch is next drafted.
    `launches` and `ran` as in `RowsOut`.
    """

    tokens: list[list[int]]
    probs: list[list[float]]
    logits_KBV: Tensor
    launches: int | None
    ran: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class LikelyOut:
    """The likeliest tokens [P][count] after each of P places of a line, best first, and their probabilities alike.

    `logits_PV` [P, V] stay until likely tokens are next asked for. `launches` as in `RowsOut`.
    """

    tokens: list[list[int]]
    probs: list[list[float]]
    logits_PV: Tensor
    launches: int | None
    ran: tuple[int, int] | None = None


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """A branch that begins with the likely token of `rank` at a place, `proposed` left out (−1: nothing is)."""

    place: int
    rank: int
    proposed: int
    prefix: int
    slots: Sequence[int]


class Passes(Protocol):
    """Forward passes of one sequence on its KV cache. The cursor is the caller's."""

    #: Tokens a prompt chunk has at most; part of the backend's version.
    chunk: int
    #: Chunks to run before the first turn, so that what most prompts need is compiled and captured.
    first_chunks: tuple[int, ...]
    #: Whether rows that were begun run by themselves; else they run when they are waited for.
    runs_ahead: bool
    #: Whether branches are best drafted in one piece; else step by step, so that an early outcome can end it.
    whole_branches: bool
    #: Whether the first use of a kind of pass captures a graph.
    captures: bool

    def queued_rounds(self, board: Board, memory: Tensor, taps: Sequence[int]) -> QueuedRounds | None:
        """Rounds of this sequence that the device runs one after another, where it can.

        `memory` is the board's; features of the layers `taps` go there. No other pass may run while a round is under way.
        """
        ...

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Run one chunk from position `start`. Returns: logits [1, V] after its last token, features [N, F] or None."""
        ...

    def begin_rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        *,
        logits: bool,
        parents: Sequence[int] | None = None,
    ) -> None:
        """Ask for up to 16 rows from position `start`, each with the bits it would have alone; no pass until `end_rows`.

        `parents`: rows past the first are nodes of a drafted tree (`placement.Tree`), in slots that follow each other too.
        """
        ...

    def end_rows(self) -> RowsOut:
        """Wait for the rows begun."""
        ...

    def rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        *,
        logits: bool,
        parents: Sequence[int] | None = None,
    ) -> RowsOut:
        """Run rows, from `begin_rows` to `end_rows`."""
        ...

    def chain(self, tokens: Sequence[int], start: int, steps: int, *, logits: bool) -> ChainOut:
        """Run up to 16 rows from position `start`, then one-row passes each fed with the winner before it.

        `steps` passes (1 … 16) name as many tokens, the first after the last row; the last one named is not fed.
        Raises: ValueError for rows or steps that cannot be.
        """
        ...

    def tree(self, tokens: Sequence[int], start: int, depth: int, width: int) -> TreeOut | None:
        """Run up to 16 rows from position `start`, then draft a tree after the last; None where trees go level by level.

        Each of `depth` levels (1 … 16) has `width` nodes (1 … 16), chosen among as many likely tokens of each node before.
        Nodes are fed in the slots from start + len(tokens) on, level by level, but those of the last level.
        Raises: ValueError for a tree that cannot be.
        """
        ...

    def branches(self, starts: Sequence[BranchStart], steps: int, batch: int = 0) -> BranchesOut:
        """Feed up to 16 branches' first tokens, then each the winner before it; `steps` passes (1 … 16) in all.

        A branch sees its prefix and its own tokens, which go to its slots; the last token named is not fed. `batch`: which
        of a round's it is.
        Raises: ValueError for branches or steps that cannot be.
        """
        ...

    def likely(self, seen: Sequence[Tensor], token: int | None, position: int, count: int) -> LikelyOut:
        """Feed a line's last token at `position`, and name the `count` likeliest tokens after each place.

        Shapes: seen [1, V] each, the logits that earlier passes gave, in order; the fed token's are the last place's.
        `token` None: nothing is fed. Raises: ValueError for no place or more than 16.
        """
        ...

    def likely_branches(
        self,
        seen: Sequence[Tensor],
        token: int | None,
        position: int,
        count: int,
        picks: Sequence[Pick],
        steps: int,
    ) -> tuple[LikelyOut, BranchesOut]:
        """`likely`, then `branches` that begin with tokens it found: one piece of work.

        `count` is more than each rank, and no more than there are tokens. Raises: ValueError as those two.
        """
        ...

    def move(self, slots: Sequence[int], first: int) -> int | None:
        """Move a branch's slots to first, first + 1, … of the main line. Returns: launches, as in `RowsOut`."""
        ...


def check_chain(n_rows: int, steps: int) -> None:
    """Raises: ValueError for rows or steps that cannot be."""
    if not (1 <= n_rows <= MAX_ROWS and 1 <= steps <= MAX_ROWS):
        raise ValueError(f"a chain of {n_rows} rows and {steps} steps cannot be: 1 to {MAX_ROWS} each")


def check_tree(n_rows: int, slot: int, depth: int, width: int, n_slots: int) -> None:
    """Raises: ValueError for a tree after `n_rows` tokens from `slot` on that cannot be in a cache of `n_slots`."""
    if not all(1 <= count <= MAX_ROWS for count in (n_rows, depth, width)):
        raise ValueError(
            f"a tree of {depth} levels of {width} nodes after {n_rows} rows cannot be: 1 to {MAX_ROWS} each"
        )
    end = slot + n_rows + (depth - 1) * width
    if end > n_slots:
        raise ValueError(
            f"a tree of {depth} levels of {width} nodes needs slots up to {end} in a cache of {n_slots}"
        )


def check_branches(starts: Sequence[BranchStart | Pick], steps: int, n_slots: int) -> None:
    """Raises: ValueError for branches or steps that cannot be in a cache of `n_slots`."""
    if not (1 <= len(starts) <= MAX_ROWS and 1 <= steps <= MAX_ROWS):
        raise ValueError(f"{len(starts)} branches of {steps} steps cannot be: 1 to {MAX_ROWS} each")
    slots = [slot for start in starts for slot in start.slots[:steps]]
    shared = max(start.prefix for start in starts)
    if len(set(slots)) != len(starts) * steps or min(slots) < shared or max(slots) >= n_slots:
        raise ValueError(
            f"{len(starts)} branches of {steps} steps need {len(starts) * steps} slots of their own in {shared}..{n_slots}"
        )


def warming_branches(count: int, steps: int) -> list[BranchStart]:
    """Branches of nothing in an empty cache."""
    first = range(1, 1 + count * steps, steps)
    return [BranchStart(prefix=1, token=0, slots=range(slot, slot + steps)) for slot in first]


def warming_picks(n_branches: int, draft_len: int) -> list[Pick]:
    """Branches off an empty line."""
    return [
        Pick(place=0, rank=rank, proposed=-1, prefix=start.prefix, slots=start.slots)
        for rank, start in enumerate(warming_branches(n_branches, draft_len), start=1)
    ]


def check_places(seen: Sequence[Tensor], token: int | None) -> int:
    """How many places there are. Raises: ValueError for none or more than 16."""
    n_places = len(seen) + (token is not None)
    if not 1 <= n_places <= MAX_ROWS:
        raise ValueError(f"{n_places} places of a line cannot be: 1 to {MAX_ROWS}")
    return n_places
