"""Slots that were paid for and not used: branches that never came true, verification rows without a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from specmon.core.events import Round
from specmon.core.metrics.spans import verify_ns

LEAST_ROUNDS = 16  # rounds with branches before a slot counts as never hit
EMPTY_SHARE = 0.5  # of the slots that nothing hit: fewer is ordinary hedging
LEAST_GROUP = 4  # rounds of a row count before its verification time is compared
FLAT = (
    0.9  # verification of short drafts ÷ of full ones, from which rows are said to cost the same used or not
)
ABOVE_AR = 1.25  # such verification ÷ AR step, below which a row's own work is all there is


@dataclass(frozen=True, kw_only=True)
class UnusedBranches:
    """Slots are (accepted_len, rank) pairs; `slots` and `empty` are means a round, `rounds` those judged."""

    slots: int
    empty: int
    rounds: int

    @property
    def share(self) -> float:
        """Slots never hit ÷ slots."""
        return self.empty / self.slots


def unused_branches(rounds: Sequence[Round]) -> UnusedBranches | None:
    """Slots prepared over and over that no outcome ever hit; None where they are few."""
    prepared: Counter[tuple[int, int]] = Counter()
    hit: Counter[tuple[int, int]] = Counter()
    judged = [r for r in rounds if r.branches and (r.hit is not None or r.miss is not None)]
    for round_ in judged:
        prepared.update((branch.accepted_len, branch.rank) for branch in round_.branches)
        if round_.hit is not None and 0 <= round_.hit < len(round_.branches):
            branch = round_.branches[round_.hit]
            hit[branch.accepted_len, branch.rank] += 1
    if len(judged) < LEAST_ROUNDS:
        return None
    slots = prepared.total() / len(judged)
    empty = sum(count for slot, count in prepared.items() if not hit[slot]) / len(judged)
    if empty < EMPTY_SHARE * slots:
        return None
    return UnusedBranches(slots=round(slots), empty=round(empty), rounds=len(judged))


@dataclass(frozen=True, kw_only=True)
class PaddedRows:
    """Verification (ns) of `rows` rows against that of `most`; `saved_ns` a round if it followed the rows used."""

    rows: int
    most: int
    short_ns: float
    full_ns: float
    ar_ns: int
    saved_ns: float


def padded_rows(rounds: Sequence[Round], ar_ns: int | None) -> PaddedRows | None:
    """Rounds that verify few rows as slowly as many, and far more slowly than an AR step.

    Returns: None without a measured AR step, which alone tells padding from weights that must be read anyway.
    """
    if ar_ns is None or not rounds:
        return None
    most = max(len(r.draft) for r in rounds) + 1
    short = [r for r in rounds if 2 * (len(r.draft) + 1) <= most]
    full = [r for r in rounds if len(r.draft) + 1 == most]
    if len(short) < LEAST_GROUP or len(full) < LEAST_GROUP:
        return None
    short_ns, full_ns = (sum(map(verify_ns, group)) / len(group) for group in (short, full))
    if short_ns < FLAT * full_ns or short_ns < ABOVE_AR * ar_ns:
        return None
    return PaddedRows(
        rows=max(len(r.draft) for r in short) + 1,
        most=most,
        short_ns=short_ns,
        full_ns=full_ns,
        ar_ns=ar_ns,
        saved_ns=(short_ns - ar_ns) * len(short) / len(rounds),
    )
