"""From measured requests to the paired report: ratios where outputs allow them, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

from specmon.core.bench.lanes import CONTROL, BenchLane
from specmon.core.bench.pairs import Measured, Plan
from specmon.core.bench.provenance import Provenance
from specmon.core.bench.report import (
    DeviceCeilings,
    Difference,
    LaneFigures,
    LaneTuning,
    Pair,
    PairedReport,
    RequestRow,
)
from specmon.core.bench.statistics import Estimate, estimate
from specmon.core.checks.records import verifies
from specmon.core.checks.subject import Kind
from specmon.core.events import Lane
from specmon.core.metrics.bandwidth import sol_fraction
from specmon.core.metrics.pooled import pooled
from specmon.core.metrics.race import DIFFERENT_RECIPE, compare_lanes
from specmon.core.metrics.turn import TurnMetrics


def paired_report(
    measured: Sequence[Measured],
    *,
    lanes: Sequence[BenchLane],
    tuning: Sequence[LaneTuning],
    plan: Plan,
    checks: Mapping[str, tuple[Kind, ...]],
    command: str,
    provenance: Provenance,
    devices: tuple[DeviceCeilings, ...],
    ceiling_source: str | None,
    seed: int,
) -> PairedReport:
    """Work out what `measured` says; pairs rest on the requests that both of their lanes finished.

    Args:
        checks: by a lane's letter those that have passed and speak for it.
    """
    done = [[m for m in measured if m.lane == number] for number in range(len(lanes))]
    present = [number for number, own in enumerate(done) if own]
    pairs = [
        compare(lanes[a].letter, done[a], lanes[b].letter, done[b], seed)
        for a, b in sorted(combinations(present, 2), key=lambda pair: lanes[pair[1]].letter == CONTROL)
        if lanes[b].letter != CONTROL or a == 0
    ]
    return PairedReport(
        command=command,
        provenance=provenance,
        devices=devices,
        ceiling_source=ceiling_source,
        prompts=tuple(prompt.name for prompt in plan.prompts),
        repeats=plan.repeats,
        max_new_tokens=plan.max_new_tokens,
        bootstrap_seed=seed,
        n_planned=plan.n_requests,
        interrupted=len(measured) < plan.n_requests,
        tuning=tuple(tuning),
        lanes=tuple(_lane(lanes[n], done[n], checks[lanes[n].letter], seed) for n in present),
        pairs=tuple(pairs),
        requests=tuple(_row(lanes[m.lane].letter, m) for m in measured),
    )


def compare(a: str, of_a: Sequence[Measured], b: str, of_b: Sequence[Measured], seed: int) -> Pair:
    """Lane `b` over lane `a`, by the requests that both finished; `a` and `b` are what the pair calls them."""
    by_request = {(m.prompt, m.repeat): m.turn for m in of_b}
    both = [(m, by_request[m.prompt, m.repeat]) for m in of_a if (m.prompt, m.repeat) in by_request]
    verdicts = [compare_lanes(m.turn, other) for m, other in both]
    different = next((i for i, v in enumerate(verdicts) if v.equal is False), None)
    unknown = next((v.output for v in verdicts if v.equal is None), None)
    blank = Pair(
        a=a,
        b=b,
        equal=None,
        output=unknown or "nothing to compare",
        first_difference=None,
        decode=None,
        request=None,
        prefill=None,
    )
    if different is not None:
        mine, other = both[different]
        index = verdicts[different].first_difference
        assert index is not None
        return msgspec.structs.replace(
            blank, equal=False, output="differs", first_difference=_difference(mine, other, index)
        )
    if not both or unknown not in (None, DIFFERENT_RECIPE):
        return blank
    return msgspec.structs.replace(
        blank,
        equal=None if unknown else True,
        output=unknown or "equal",
        decode=_ratios(both, seed, lambda one, two: _over(one.ms_per_token, two.ms_per_token)),
        request=_ratios(
            both, seed, lambda one, two: _over(two.request_tokens_per_s, one.request_tokens_per_s)
        ),
        prefill=_ratios(both, seed, lambda one, two: _over(one.prefill_ms, two.prefill_ms)),
    )


def _ratios(
    both: Iterable[tuple[Measured, TurnMetrics]],
    seed: int,
    ratio_of: Callable[[TurnMetrics, TurnMetrics], float | None],
) -> Estimate | None:
    return _estimate(((m.prompt, ratio_of(m.turn, other)) for m, other in both), seed)


def _over(one: float | None, two: float | None) -> float | None:
    return one / two if one is not None and two else None


def _estimate(values: Iterable[tuple[str, float | None]], seed: int) -> Estimate | None:
    by_prompt: dict[str, list[float]] = {}
    for prompt, value in values:
        if value is not None:
            by_prompt.setdefault(prompt, []).append(value)
    return estimate(by_prompt, seed=seed)


def _lane(lane: BenchLane, measured: list[Measured], checks: tuple[Kind, ...], seed: int) -> LaneFigures:
    whole = pooled([m.turn for m in measured])
    described: Lane = measured[0].turn.lane

    def over(figure: Callable[[TurnMetrics], float | None]) -> Estimate | None:
        return _estimate(((m.prompt, figure(m.turn)) for m in measured), seed)

    return LaneFigures(
        letter=lane.letter,
        label=lane.label,
        config=lane.config,
        target=described.target,
        drafter=described.drafter,
        recipe=described.recipe,
        backend=described.backend,
        devices=described.devices,
        n_requests=len(measured),
        ms_per_token=over(lambda turn: turn.ms_per_token),
        tokens_per_s=over(lambda turn: turn.tokens_per_s),
        request_tokens_per_s=over(lambda turn: turn.request_tokens_per_s),
        prefill_ms=over(lambda turn: turn.prefill_ms),
        n_tokens=whole.n_tokens,
        rounds=whole.rounds,
        tokens_per_round=whole.tokens_per_round,
        acceptance_rate=whole.acceptance_rate,
        branch_hit_rate=whole.branch_hit_rate,
        draft_ms=whole.draft_ms,
        verify_ms=whole.verify_ms,
        sol_fraction=whole.sol_fraction,
        first_change=_first_change(measured),
        host_launches_per_round=whole.host_launches_per_round,
        checks=checks,
        verified=verifies(checks),
    )


def _first_change(measured: list[Measured]) -> Difference | None:
    first: dict[str, Measured] = {}
    for later in measured:
        earlier = first.setdefault(later.prompt, later)
        index = compare_lanes(earlier.turn, later.turn).first_difference
        if index is not None:
            return msgspec.structs.replace(_difference(earlier, later.turn, index), repeat=later.repeat)
    return None


def _difference(a: Measured, b: TurnMetrics, index: int) -> Difference:
    (a_id, a_text), (b_id, b_text) = _token(a.turn, index), _token(b, index)
    return Difference(
        prompt=a.prompt, repeat=a.repeat, index=index, a=a_id, b=b_id, a_text=a_text, b_text=b_text
    )


def _token(turn: TurnMetrics, index: int) -> tuple[int | None, str | None]:
    tokens = turn.tokens()
    return (tokens[index], turn.token_fates()[index].text) if index < len(tokens) else (None, None)


def _row(letter: str, measured: Measured) -> RequestRow:
    turn = measured.turn
    return RequestRow(
        lane=letter,
        prompt=measured.prompt,
        repeat=measured.repeat,
        place=measured.place,
        prompt_tokens=turn.turn.prompt_tokens,
        reused_tokens=turn.turn.reused_tokens,
        n_tokens=turn.n_tokens,
        rounds=turn.n_rounds,
        prefill_ms=turn.prefill_ms,
        decode_ms=turn.decode_ms,
        ms_per_token=turn.ms_per_token,
        request_tokens_per_s=turn.request_tokens_per_s,
        tokens_per_round=turn.tokens_per_round,
        acceptance_rate=turn.acceptance_rate,
        branch_hit_rate=turn.branch_hit_rate,
        sol_fraction=sol_fraction(turn),
        stop_reason=None if turn.end is None else turn.end.stop_reason,
    )
