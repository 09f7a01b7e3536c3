"""What `bench draft-len` found, as data: a row a setting, the best draft_lens, and SSD over SD against its prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from specmon.core.bench.draft_len import DraftLenRow, Measurement, Setting, compared, rows_of
from specmon.core.bench.provenance import Provenance
from specmon.core.bench.report import DeviceCeilings
from specmon.core.bench.statistics import Estimate
from specmon.core.checks.records import verifies
from specmon.core.checks.subject import Kind
from specmon.core.engine.messages import LaneConfig
from specmon.core.events import Decoder
from specmon.core.metrics.acceptance import ratio

_Speed = Callable[[DraftLenRow], float | None]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """SSD over SD, each at its own best draft_len of those measured, in decode speed.

    `measured`: median of single requests. `predicted`: the highest predicted tokens/s of SSD ÷ the highest of SD.
    """

    sd_draft_len: int
    ssd_draft_len: int
    measured: Estimate | None
    predicted: float | None
    measured_over_predicted: float | None


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Settings measured on the same prompts. `interrupted`: fewer than `n_planned` requests, and figures rest on those."""

    prompts: tuple[str, ...]
    n_planned: int
    n_requests: int
    interrupted: bool
    rows: tuple[DraftLenRow, ...]


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder's fastest draft_len in the sweep: by round time and the τ that all draft_lens share, which is chosen; by
    what its own rounds took alone; and as the parts of its rounds predict, with that τ.
    """

    decoder: Decoder
    draft_len: int
    alone: int
    predicted: int | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The draft_lens chosen (none from a sweep that is not whole), and SSD over SD on the prompts of either stage."""

    best: tuple[Best, ...]
    sweep: Comparison | None
    evaluation: Comparison | None


class DraftLenReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result: the sweep over every draft_len, and AR and the best of each decoder on the evaluation prompts.

    `evaluation` is None where it was not asked for, or not reached.
    """

    command: str
    provenance: Provenance
    devices: tuple[DeviceCeilings, ...]
    ceiling_source: str | None
    config: LaneConfig
    drafter: str | None
    recipe: str
    backend: str
    n_devices: int
    repeats: int
    max_new_tokens: int
    bootstrap_seed: int
    summary: Summary
    sweep: Stage
    evaluation: Stage | None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What was measured."""
        return (self.sweep,) if self.evaluation is None else (self.sweep, self.evaluation)

    @property
    def faults(self) -> list[str]:
        """What forbids to trust the result, a sentence each."""
        return [row.fault for stage in self.stages for row in stage.rows if row.fault is not None]


def draft_len_report(
    sweep: Measurement,
    evaluation: Measurement | None,
    *,
    config: LaneConfig,
    checks: Mapping[Decoder, tuple[Kind, ...]],
    command: str,
    provenance: Provenance,
    devices: tuple[DeviceCeilings, ...],
    ceiling_source: str | None,
    seed: int = 0,
) -> DraftLenReport:
    """Work out what was measured; `config` is the lanes' besides decoder and draft_len, `checks` those passed by decoder.

    Raises: ValueError if nothing was.
    """
    if not sweep.measured:
        raise ValueError("nothing was measured")
    swept = _stage(sweep, checks, seed)
    evaluated = _stage(evaluation, checks, seed) if evaluation else None
    lanes = [m.turn.lane for m in sweep.measured]
    return DraftLenReport(
        command=command,
        provenance=provenance,
        devices=devices,
        ceiling_source=ceiling_source,
        config=config,
        drafter=next((lane.drafter for lane in lanes if lane.drafter is not None), None),
        recipe=lanes[0].recipe,
        backend=lanes[0].backend,
        n_devices=max(len(lane.devices) for lane in lanes),
        repeats=sweep.plan.repeats,
        max_new_tokens=sweep.plan.max_new_tokens,
        bootstrap_seed=seed,
        summary=Summary(
            best=() if swept.interrupted else best_of(swept.rows),
            sweep=comparison(sweep, swept.rows, seed),
            evaluation=comparison(evaluation, evaluated.rows, seed) if evaluation and evaluated else None,
        ),
        sweep=swept,
        evaluation=evaluated,
    )


def best_of(rows: Sequence[DraftLenRow]) -> tuple[Best, ...]:
    """Each decoder's best draft_len; none for a decoder that decoded nothing."""
    found = []
    for decoder in dict.fromkeys(row.decoder for row in rows if row.draft_len):
        chosen, alone = (
            _fastest(rows, decoder, speed) for speed in (_steady_speed(rows, decoder), _measured_speed)
        )
        if chosen is not None and alone is not None:
            guess = _fastest(rows, decoder, _steady_speed(rows, decoder, predicted=True))
            found.append(
                Best(
                    decoder=decoder,
                    draft_len=chosen.draft_len,
                    alone=alone.draft_len,
                    predicted=None if guess is None else guess.draft_len,
                )
            )
    return tuple(found)


def comparison(done: Measurement, rows: Sequence[DraftLenRow], seed: int) -> Comparison | None:
    """SSD over SD; None where one of them was not measured."""
    sd, ssd = (_fastest(rows, decoder, _steady_speed(rows, decoder)) for decoder in ("sd", "ssd"))
    if sd is None or ssd is None:
        return None
    measured = compared(done, Setting("sd", sd.draft_len), Setting("ssd", ssd.draft_len), seed).decode
    predicted = _predicted_ratio(rows)
    return Comparison(
        sd_draft_len=sd.draft_len,
        ssd_draft_len=ssd.draft_len,
        measured=measured,
        predicted=predicted,
        measured_over_predicted=None
        if measured is None or predicted is None
        else measured.median / predicted,
    )


def _stage(done: Measurement, checks: Mapping[Decoder, tuple[Kind, ...]], seed: int) -> Stage:
    return Stage(
        prompts=tuple(prompt.name for prompt in done.plan.prompts),
        n_planned=done.plan.n_requests,
        n_requests=len(done.measured),
        interrupted=done.interrupted,
        rows=tuple(_with_checks(row, checks[row.decoder]) for row in rows_of(done, seed)),
    )


def _with_checks(row: DraftLenRow, checks: tuple[Kind, ...]) -> DraftLenRow:
    return msgspec.structs.replace(row, checks=checks, verified=verifies(checks))


def _predicted_ratio(rows: Sequence[DraftLenRow]) -> float | None:
    sd, ssd = (_fastest(rows, decoder, _predicted_speed) for decoder in ("sd", "ssd"))
    if sd is None or ssd is None:
        return None
    return ratio(_predicted_speed(ssd) or 0.0, _predicted_speed(sd) or 0.0)


def _measured_speed(row: DraftLenRow) -> float | None:
    return row.tokens_per_s


def _predicted_speed(row: DraftLenRow) -> float | None:
    return row.predicted_tokens_per_s


def _steady_speed(rows: Sequence[DraftLenRow], decoder: str, *, predicted: bool = False) -> _Speed:
    """Speed with the τ that a decoder's draft_lens share, where they do: else with what each was seen to have."""
    shared = all(row.chain_tokens_per_round is not None for row in rows if row.decoder == decoder)

    def speed(row: DraftLenRow) -> float | None:
        round_ms = row.predicted_round_ms if predicted else row.round_ms
        tau = row.chain_tokens_per_round if shared else row.tokens_per_round
        return None if tau is None or round_ms is None else 1000 * tau / round_ms

    return speed


def _fastest(rows: Sequence[DraftLenRow], decoder: str, speed_of: _Speed) -> DraftLenRow | None:
    """A decoder's fastest row, the smaller draft_len of two equals; None where no speed is known."""
    known = [
        (speed, -row.draft_len, row)
        for row in rows
        if row.decoder == decoder and (speed := speed_of(row)) is not None
    ]
    return max(known, key=lambda entry: entry[:2])[2] if known else None
