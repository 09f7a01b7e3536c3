"""What a drafter is, and what it hands over.

A drafter follows the confirmed text (`begin`, `commit`), proposes its continuation (`draft`) and, for SSD, prepares
branches for the outcomes a draft may have (`prepare`). It runs where the draft device is: in the engine, or in a worker
process of its own (`link`). Token ids are the target's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec
from msgspec.structs import replace
from torch import Tensor

from specmon.core.events import ClockSync, Log, MissReason
from specmon.core.metrics.acceptance import node_depths
from specmon.kernels.accept.reference import agreeing, agreeing_path


@dataclass(frozen=True, kw_only=True)
class DrafterInfo:
    """What a lane says about its drafter.

    `tap_layers` are the target layers whose input it needs as features ((): none). `may_fall_short`: it may propose fewer
    tokens than it is asked for. `longest`: tokens that a draft has at most, None where it has any number.
    """

    kind: str
    label: str
    tap_layers: tuple[int, ...] = ()
    weight_bytes: int = 0
    kv_bytes_per_token: int = 0
    may_fall_short: bool = False
    longest: int | None = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """Up to K tokens that may continue the confirmed text; `probs` has one entry a token where it is cheap, else ().

    `features` says what an EAGLE-3 draft started from; `drafter` the kind that made it, where a drafter has several.
    `parents`: of a tree's nodes, −1 for children of the last confirmed token, each before its children; None for a chain.
    """

    tokens: tuple[int, ...]
    probs: tuple[float, ...] = ()
    features: Literal["real", "predicted"] | None = None
    drafter: str | None = None
    parents: tuple[int, ...] | None = None

    def no_deeper_than(self, depth: int) -> Proposal:
        """The first `depth` tokens, or the nodes no deeper than that, which are a tree's first."""
        count = depth if self.parents is None else sum(d <= depth for d in node_depths(self.parents))
        return replace(
            self,
            tokens=self.tokens[:count],
            probs=self.probs[:count],
            parents=None if self.parents is None else self.parents[:count],
        )

    def accepted(self, choices: Sequence[int]) -> Sequence[int]:
        """The nodes that `choices` accept, from the first down; they are for the confirmed text, then for each node."""
        if self.parents is None:
            return range(agreeing(self.tokens, choices))
        return agreeing_path(self.parents, self.tokens, choices)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What verification decided: the drafted tokens that stay, and the bonus.

    `features_AF` [len(accepted) + 1, F]: the target's features of the rows that stay.
    """

    accepted: tuple[int, ...]
    bonus: int
    features_AF: Tensor | None = None

    @property
    def accepted_len(self) -> int:
        return len(self.accepted)

    @property
    def key(self) -> tuple[int, int]:
        return self.accepted_len, self.bonus


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """One branch: the outcome it is for, and its proposal once finished. Times are the lane clock's (ns)."""

    accepted_len: int
    bonus: int
    rank: int
    probability: float | None
    proposal: Proposal | None
    ready_at: int | None

    @property
    def key(self) -> tuple[int, int]:
        return self.accepted_len, self.bonus


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Counted work of one stretch on the draft device: forward passes, bytes read, launches from the host.

    `launches` is None where some of the work's are not counted. `ran`: when its first pass began and its last one ended by
    the device's clock (ns), None where passes are not stamped.
    """

    forwards: int = 0
    weight_bytes: int = 0
    kv_bytes: int = 0
    launches: int | None = 0
    ran: tuple[int, int] | None = None

    def __add__(self, other: Work) -> Work:
        return Work(
            forwards=self.forwards + other.forwards,
            weight_bytes=self.weight_bytes + other.weight_bytes,
            kv_bytes=self.kv_bytes + other.kv_bytes,
            launches=both(self.launches, other.launches),
            ran=_from_first_to_last(self.ran, other.ran),
        )


def both(a: int | None, b: int | None) -> int | None:
    """Their sum, unknown where one is."""
    return None if a is None or b is None else a + b


def _from_first_to_last(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    if a is None or b is None:
        return a or b
    return min(a[0], b[0]), max(a[1], b[1])


class Drafted(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal with when it was made and what it cost. `prefill`: when the context before it was taken in, if it was.

    `clocks`: how the draft device's clock was measured before it, if it was.
    """

    proposal: Proposal
    t0: int
    t1: int
    work: Work = Work()
    prefill: tuple[tuple[int, int], ...] = ()
    clocks: tuple[ClockSync | Log, ...] = ()


class Branches(msgspec.Struct, frozen=True, kw_only=True):
    """A round's branches as they are handed over, made from `t0` to `t1`.

    `cut_short`: the outcome came before there were any. `clocks` as in `Drafted`.
    """

    prepared: tuple[Prepared, ...]
    cut_short: bool
    t0: int
    t1: int
    clocks: tuple[ClockSync | Log, ...] = ()

    def hit(self, outcome: Outcome) -> int | None:
        """Index of the finished branch for `outcome`, whose proposal is the next draft; None where there is none."""
        found = (i for i, b in enumerate(self.prepared) if b.key == outcome.key and b.proposal is not None)
        return next(found, None)

    def miss(self, outcome: Outcome) -> MissReason:
        """Why none is: not finished in time, its bonus not among the guesses, or no guesses for its accepted_len."""
        if self.cut_short or any(b.key == outcome.key for b in self.prepared):
            return "late"
        return "rank" if any(b.accepted_len == outcome.accepted_len for b in self.prepared) else "none"


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The draft device took an outcome in: when it `received` it, and the work since the draft."""

    received: int
    work: Work = Work()


Answer = Drafted | Branches | Settled
Arrived = Callable[[], Outcome | None]


#: Stands for a token that is not known yet, last of a context.
TO_COME = -1


class Drafter(Protocol):
    """Proposes tokens for one sequence. Positions count the whole context, prompt included."""

    info: DrafterInfo

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        """A turn starts, or its context grows before the first draft: take in all of `tokens` but the last.

        That one may be `TO_COME`, so that a prompt can be taken in while the target runs it. `features_NF` holds the
        target's features of positions first … len(tokens)-2.
        """
        ...

    def draft(self, draft_len: int) -> Proposal:
        """Propose up to `draft_len` tokens after the confirmed context."""
        ...

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        """Prepare branches of `draft_len` tokens for outcomes of the last proposal: fan_out[a] for each accepted_len a.

        Between steps it asks `arrived()`; once the outcome is there it goes on only with that outcome's branch, or stops.
        """
        ...

    def commit(self, outcome: Outcome) -> None:
        """The outcome joins the confirmed context; the last proposal and its branches are over."""
        ...

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        """Like `commit`, and the branch's proposal becomes the last proposal, its work kept."""
        ...

    def take_work(self) -> Work:
        """Work since the last call."""
        ...
