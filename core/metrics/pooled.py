"""Several turns of one lane taken together: sums over all of them, divided once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specmon.core.metrics.acceptance import ratio
from specmon.core.metrics.bandwidth import target_floor_ns
from specmon.core.metrics.round_time import launches_a_round
from specmon.core.metrics.spans import shares
from specmon.core.metrics.turn import NS_PER_MS, TurnMetrics


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """Figures of a lane over several turns; None where one does not apply.

    Times are means a round; `draft_ms` is the drafting that nothing of the target's hides.
    """

    n_tokens: int
    rounds: int
    ms_per_token: float | None
    tokens_per_round: float | None
    acceptance_rate: float | None
    branch_hit_rate: float | None
    draft_ms: float | None
    verify_ms: float | None
    sol_fraction: float | None
    host_launches_per_round: float | None


def pooled(turns: Sequence[TurnMetrics]) -> Pooled:
    """Sum up `turns`; the formulas are those of one turn with every sum taken over all of them."""
    decoded = sum(turn.decoded_tokens for turn in turns)
    rounds = sum(turn.n_rounds for turn in turns)
    decode_ns = sum(turn.decode_ns for turn in turns)
    counts = [turn.acceptance for turn in turns]
    floors = [target_floor_ns(turn, 0, turn.n_rounds - 1) for turn in turns]
    parts = [shares(turn.rounds) for turn in turns]
    known = [floor for floor in floors if floor is not None]
    return Pooled(
        n_tokens=sum(turn.n_tokens for turn in turns),
        rounds=rounds,
        ms_per_token=ratio(decode_ns, NS_PER_MS * decoded),
        tokens_per_round=ratio(decoded, rounds),
        acceptance_rate=ratio(sum(c.kept_tokens for c in counts), sum(c.drafted_tokens for c in counts)),
        branch_hit_rate=ratio(sum(c.hits for c in counts), sum(c.branch_rounds for c in counts)),
        draft_ms=ratio(sum(part.draft_ns for part in parts), NS_PER_MS * rounds),
        verify_ms=ratio(sum(part.verify_ns for part in parts), NS_PER_MS * rounds),
        sol_fraction=ratio(sum(known), decode_ns) if len(known) == len(turns) else None,
        host_launches_per_round=launches_a_round([r for turn in turns for r in turn.rounds]),
    )
