"""The JSON object of one request: live and replay print the same one, since both have the same events."""

from __future__ import annotations

import msgspec

from specmon.core.events import Decoder, StopReason
from specmon.core.metrics.bandwidth import sol_fraction
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.race import Unlike, is_whole, race_turns, race_verdicts, reference_lane
from specmon.core.metrics.round_time import launches_a_round
from specmon.core.metrics.spans import overlap
from specmon.core.metrics.turn import NS_PER_MS, TurnMetrics


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One request's figures, in the order they are printed; None where one does not apply."""

    decoder: Decoder
    draft: str | None
    recipe: str
    backend: str  # with its version: "reference-1"
    devices: tuple[str, ...]
    tokens: tuple[int, ...] | None  # None where a recording had its ids removed
    text: str | None
    n_tokens: int
    rounds: int
    tokens_per_round: float | None
    acceptance_rate: float | None
    branch_hit_rate: float | None
    prefill_ms: float | None
    decode_ms: float
    tokens_per_s: float | None
    request_tokens_per_s: float | None
    ms_per_token: float | None
    overlap_ms: float | None
    sol_fraction: float | None
    stop_reason: StopReason | None
    session: str | None
    host_launches_per_round: float | None
    fan_out: str | None  # "2", "5·4·3·2·2" or "auto:16"
    target: str
    draft_len: int | None  # None for AR, which drafts nothing
    draft_nodes: int | None  # of a tree


class RaceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All lanes of a race.

    The reference is the first lane that finished. `equal`: whether all lanes of its target, recipe and history that
    did not fail gave its tokens, None where nothing
    can be compared (sampled, redacted, one lane, or equal as far as an output goes that is not whole).
    `first_difference` is a token's index from 0. `ratios` are to the reference, one a lane, 1.0 for
    itself, None where none is due.
    """

    lanes: tuple[Summary, ...]
    equal: bool | None
    first_difference: int | None
    ratios: tuple[float | None, ...]


def summary(ledger: Ledger, lane: int = 0, turn: int = -1, session: str | None = None) -> Summary:
    """Sum up one turn of one lane; `session` is where it was recorded.

    Raises: KeyError for an unknown lane, IndexError for an unknown turn.
    """
    return _summary(ledger, ledger.lanes[lane].turns[turn], session)


def _summary(ledger: Ledger, turn: TurnMetrics, session: str | None) -> Summary:
    redacted = ledger.header is not None and ledger.header.redacted
    tokens = tuple(token for token in turn.tokens() if token is not None)
    shared = overlap(turn.rounds, len(turn.lane.devices))
    return Summary(
        decoder=turn.lane.decoder,
        draft=turn.lane.drafter,
        recipe=turn.lane.recipe,
        backend=turn.lane.backend,
        devices=turn.lane.devices,
        tokens=tokens if len(tokens) == turn.n_tokens else None,
        text=None if redacted else turn.text,
        n_tokens=turn.n_tokens,
        rounds=turn.n_rounds,
        tokens_per_round=turn.tokens_per_round,
        acceptance_rate=turn.acceptance_rate,
        branch_hit_rate=turn.branch_hit_rate,
        prefill_ms=turn.prefill_ms,
        decode_ms=turn.decode_ms,
        tokens_per_s=turn.tokens_per_s,
        request_tokens_per_s=turn.request_tokens_per_s,
        ms_per_token=turn.ms_per_token,
        overlap_ms=None if shared is None else shared.total_ns / NS_PER_MS,
        sol_fraction=sol_fraction(turn),
        stop_reason=None if turn.end is None else turn.end.stop_reason,
        session=session,
        host_launches_per_round=launches_a_round(turn.rounds),
        fan_out=turn.turn.fan_out_words,
        target=turn.lane.target,
        draft_len=turn.turn.draft_len or None,
        draft_nodes=turn.turn.draft_nodes,
    )


def race_summary(
    ledger: Ledger, turn: int = -1, session: str | None = None, *, unlike: Unlike | None = None
) -> RaceSummary:
    """Sum up a race: each lane's turn, whether they agree, and how much faster each was than the reference.

    `unlike`: what forbids to compare lanes. Raises: IndexError if no lane has such a turn.
    """
    raced = race_turns(ledger, turn)
    if not raced:
        raise IndexError("no lane has such a turn")
    verdicts = race_verdicts(raced, unlike or {})
    reference = reference_lane({number: t.end for number, t in raced.items()})
    settled = [
        verdict
        for number, verdict in verdicts.items()
        if number != reference and verdict.equal is not None and not verdict.provisional
    ]
    differences = [v.first_difference for v in settled if v.first_difference is not None]
    return RaceSummary(
        lanes=tuple(_summary(ledger, t, session) for t in raced.values()),
        equal=all(verdict.equal for verdict in settled) if settled else None,
        first_difference=min(differences, default=None),
        ratios=tuple(
            verdicts[number].ratio if is_whole(t) and not verdicts[number].provisional else None
            for number, t in raced.items()
        ),
    )
