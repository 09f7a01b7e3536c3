"""A lane's mean round over several turns, taken apart, and the round that its parts predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specmon.core.events import Decoder, Round
from specmon.core.metrics.acceptance import ratio
from specmon.core.metrics.pooled import pooled
from specmon.core.metrics.round_time import branch_time, draft_time
from specmon.core.metrics.spans import intersect, measure, spans_of, verify_ns
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.roofline import WhatIf


@dataclass(frozen=True, kw_only=True)
class RoundParts:
    """Means over the rounds of turns of one lane and draft_len, times in ns. None: not seen in these rounds.

    t_d, t_v, t_branch as in `RoundTime`. t_sync: of rounds whose draft was a branch (the round before hit), the time from
    that outcome to the start of verification, less branch drafting that went on in it, which t_branch holds.
    """

    decoder: Decoder
    draft_len: int
    n_devices: int
    tokens_per_round: float
    hit_rate: float | None
    round_ns: float
    t_v: float
    t_d: float | None
    t_branch: float | None
    t_sync: float | None

    @property
    def predicted(self) -> WhatIf | None:
        """The round of these parts alone: AR t_v, SD K·t_d + t_v, SSD max(t_v, t_branch) + (1 − h)·K·t_d + t_sync.

        None where a part was not seen, and for SSD on one device, where nothing overlaps.
        """
        needed: dict[Decoder, tuple[float | None, ...]] = {
            "ar": (),
            "sd": (self.t_d,),
            "ssd": (self.t_d, self.t_branch, self.t_sync, self.hit_rate),
        }
        alone = self.decoder == "ssd" and self.n_devices < 2
        if not self.t_v or None in needed[self.decoder] or alone:
            return None
        return WhatIf(
            decoder=self.decoder,
            draft_len=self.draft_len,
            tokens_per_round=self.tokens_per_round,
            t_v=self.t_v,
            t_d=self.t_d or 0.0,
            t_branch=self.t_branch or 0.0,
            hit_rate=self.hit_rate or 0.0,
            other_ns=self.t_sync or 0.0,
        )


def round_parts(turns: Sequence[TurnMetrics]) -> RoundParts | None:
    """Take apart the rounds of `turns`, sums over all of them divided once; None without a round."""
    sums, lane = pooled(turns), turns[0].lane if turns else None
    if lane is None or sums.tokens_per_round is None:
        return None
    n_rounds = sums.rounds
    drafts = [draft_time(turn.rounds) for turn in turns]
    branches = [branch_time(turn.rounds) for turn in turns]
    syncs = [ns for turn in turns for ns in _sync_ns(turn.rounds)]
    return RoundParts(
        decoder=lane.decoder,
        draft_len=max(turn.turn.draft_len for turn in turns),
        n_devices=len(lane.devices),
        tokens_per_round=sums.tokens_per_round,
        hit_rate=sums.branch_hit_rate,
        round_ns=sum(turn.decode_ns for turn in turns) / n_rounds,
        t_v=sum(verify_ns(round_) for turn in turns for round_ in turn.rounds) / n_rounds,
        t_d=ratio(sum(ns for ns, _ in drafts), sum(n for _, n in drafts)),
        t_branch=ratio(sum(ns for ns, _ in branches), sum(n for _, n in branches)),
        t_sync=ratio(sum(syncs), len(syncs)),
    )


def _sync_ns(rounds: Sequence[Round]) -> Iterator[int]:
    """t_sync of each round that started with a branch."""
    for before, round_ in pairwise(rounds):
        verify = spans_of((round_,), frozenset({"verify"}))
        if before.hit is None or not verify:
            continue
        waited = [(round_.t0, max(round_.t0, verify[0][0]))]
        branches = spans_of((before, round_), frozenset({"branch_draft"}))
        yield measure(waited) - measure(intersect(branches, waited))
