"""τ of chains of one length, from drafts of several: what is drafted behind a position does not change what is at it."""

from __future__ import annotations

from collections.abc import Sequence

from specmon.core.metrics.turn import TurnMetrics


def chain_tau(turns: Sequence[TurnMetrics], draft_len: int) -> float | None:
    """Expected tokens a round of chains of `draft_len`: 1 + Σ_k Π_(i ≤ k) accepted_i ÷ reached_i, counted over all `turns`.

    None where a position was never reached, or a draft was a tree or shorter than asked for.
    """
    rounds = [round_ for turn in turns for round_ in turn.rounds]
    if any(round_.parents is not None or len(round_.draft) < round_.requested_k for round_ in rounds):
        return None
    reached, accepted = [0] * draft_len, [0] * draft_len
    for turn in turns:
        for place in turn.positions()[:draft_len]:
            reached[place.position - 1] += place.reached
            accepted[place.position - 1] += place.accepted
    if not all(reached):
        return None
    tau, kept = 1.0, 1.0
    for right, judged in zip(accepted, reached, strict=True):
        kept *= right / judged
        tau += kept
    return tau
