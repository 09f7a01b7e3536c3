"""The mean round of a turn's last rounds, taken apart: the figures that WHY and the race table speak with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specmon.core.events import Round
from specmon.core.metrics.acceptance import Acceptance, drafted_len, ratio
from specmon.core.metrics.bandwidth import target_floor_ns
from specmon.core.metrics.spans import Overlap, Shares, overlap, shares, verify_ns
from specmon.core.metrics.turn import TurnMetrics


@dataclass(frozen=True, kw_only=True)
class RoundTime:
    """Means over `n_rounds` rounds, times in ns a round. None: not seen in these rounds.

    t_d is draft time ÷ tokens drafted, so that draft_len · t_d is what a draft from scratch took.
    """

    n_rounds: int
    shares: Shares  # sums over the rounds
    overlap: Overlap | None  # sums over the rounds
    tokens: int
    draft_len: int  # longest draft
    t_v: float
    t_d: float | None
    t_branch: float | None
    floor_ns: float | None
    acceptance: Acceptance  # counts over these rounds
    launches: float | None

    @property
    def round_ns(self) -> float:
        """Round time."""
        return self.shares.total_ns / self.n_rounds

    @property
    def tokens_per_round(self) -> float:
        """τ of these rounds."""
        return self.tokens / self.n_rounds

    @property
    def draft_ns(self) -> float:
        """Drafting that is exposed."""
        return self.shares.draft_ns / self.n_rounds

    @property
    def acceptance_rate(self) -> float | None:
        """α of these rounds."""
        return ratio(self.acceptance.kept_tokens, self.acceptance.drafted_tokens)

    @property
    def miss_rate(self) -> float | None:
        """Misses ÷ rounds that had branches and a successor."""
        counts = self.acceptance
        return ratio(counts.branch_rounds - counts.hits, counts.branch_rounds)

    @property
    def idle_ns(self) -> float:
        """Time in which no device works: gaps between launches, and waits that nothing covers."""
        return (self.shares.wait_ns + self.shares.other_ns) / self.n_rounds

    @property
    def other_ns(self) -> float:
        """Everything that is neither verification nor drafting."""
        return self.round_ns - (self.shares.verify_ns + self.shares.draft_ns) / self.n_rounds

    @property
    def verify_fraction(self) -> float | None:
        """The target's floor ÷ verification time: verification's share of the read ceiling."""
        return None if self.floor_ns is None else ratio(self.floor_ns, self.t_v)

    @property
    def sd_round_ns(self) -> float | None:
        """A modelled SD round: this one, with a whole draft from scratch exposed."""
        return None if self.t_d is None else self.round_ns - self.draft_ns + self.draft_len * self.t_d


def round_time(turn: TurnMetrics, last: int | None = None) -> RoundTime | None:
    """Take apart the turn's last rounds, or all of them; None before the first."""
    first = 0 if last is None else max(0, turn.n_rounds - last)
    rounds = turn.rounds[first:]
    if not rounds:
        return None
    counts = Acceptance()
    for round_ in rounds:
        counts.add(round_)
    floor = target_floor_ns(turn, first, turn.n_rounds - 1)
    return RoundTime(
        n_rounds=len(rounds),
        shares=shares(rounds),
        overlap=overlap(rounds, len(turn.lane.devices)),
        tokens=sum(len(r.emitted) for r in rounds),
        draft_len=max(map(drafted_len, rounds)),
        t_v=sum(map(verify_ns, rounds)) / len(rounds),
        t_d=ratio(*draft_time(rounds)),
        t_branch=ratio(*branch_time(rounds)),
        floor_ns=None if floor is None else floor / len(rounds),
        acceptance=counts,
        launches=launches_a_round(rounds),
    )


def launches_a_round(rounds: Sequence[Round]) -> float | None:
    """Mean host launches of the rounds that count them; None where none does."""
    known = [r.host_launches for r in rounds if r.host_launches is not None]
    return ratio(sum(known), len(known))


def draft_time(rounds: Sequence[Round]) -> tuple[int, int]:
    """Draft time (ns) and tokens drafted, over the rounds whose draft was made from scratch."""
    ns_by_round: dict[int, int] = {}
    for span in (s for r in rounds for s in r.spans if s.kind == "draft"):
        ns_by_round[span.for_round] = ns_by_round.get(span.for_round, 0) + span.end - span.start
    drafted = [(ns_by_round[r.index], drafted_len(r)) for r in rounds if r.index in ns_by_round]
    return sum(ns for ns, n in drafted if n), sum(n for _, n in drafted)


def branch_time(rounds: Sequence[Round]) -> tuple[int, int]:
    """Time (ns) of preparing branches, and the rounds it was done for."""
    spans = [s for r in rounds for s in r.spans if s.kind == "branch_draft"]
    return sum(s.end - s.start for s in spans), len({s.for_round for s in spans})
