"""The measurement behind `bench draft-len`: AR and each decoder at each draft_len, settings that alternate in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from specmon.core.bench.pairs import Decode, Measured, Plan
from specmon.core.bench.report import Pair
from specmon.core.bench.statistics import Estimate
from specmon.core.bench.verdicts import compare
from specmon.core.checks.subject import Kind
from specmon.core.engine.messages import Request
from specmon.core.events import Decoder
from specmon.core.metrics.chain_tau import chain_tau
from specmon.core.metrics.pooled import pooled
from specmon.core.metrics.round_parts import round_parts
from specmon.core.metrics.turn import NS_PER_MS, TurnMetrics


class Setting(msgspec.Struct, frozen=True):
    """A decoder at a draft_len; AR has 0."""

    decoder: Decoder
    draft_len: int

    @property
    def label(self) -> str:
        """ "AR", "SD K4"."""
        name = self.decoder.upper()
        return f"{name} K{self.draft_len}" if self.draft_len else name


AR = Setting("ar", 0)


class DraftLenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A setting over all of its requests, sums divided once. None: does not apply, or was not seen.

    Times are means a round. `equal`: whether its tokens are AR's; where not, it has no times, and `fault` says where.
    `predicted_…`: of `RoundParts.predicted`; `measured_over_predicted` is of tokens/s, 1 where parts are all of a round.
    `over_ar`: how many times as fast as AR it decodes, median of single requests. `checks`: those of `specmon check` that
    have passed and speak for its decoder; without agreement it is not `verified`. `chain_tokens_per_round`: the
    τ of `chain_tau` from the decoder's rounds at every draft_len, by which draft_lens are compared.
    """

    decoder: Decoder
    draft_len: int
    n_requests: int
    rounds: int
    equal: bool | None
    fault: str | None
    tokens_per_round: float | None
    acceptance_rate: float | None
    branch_hit_rate: float | None
    host_launches_per_round: float | None
    chain_tokens_per_round: float | None = None
    t_d_ms: float | None = None
    t_v_ms: float | None = None
    t_branch_ms: float | None = None
    t_sync_ms: float | None = None
    round_ms: float | None = None
    predicted_round_ms: float | None = None
    tokens_per_s: float | None = None
    predicted_tokens_per_s: float | None = None
    measured_over_predicted: float | None = None
    over_ar: Estimate | None = None
    checks: tuple[Kind, ...] = ()
    verified: bool = False

    @property
    def label(self) -> str:
        """ "AR", "SD K4"."""
        return Setting(self.decoder, self.draft_len).label


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Settings on prompts: what is planned, and what is done of it so far; `Measured.lane` is a place in `settings`."""

    settings: Sequence[Setting]
    plan: Plan
    measured: list[Measured] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether requests are still to be measured."""
        return len(self.measured) < self.plan.n_requests


def all_settings(decoders: Sequence[Decoder], draft_lens: Sequence[int]) -> tuple[Setting, ...]:
    """AR, then each of `decoders` (of SD and SSD) at each of `draft_lens`."""
    return (AR, *(Setting(decoder, draft_len) for decoder in decoders for draft_len in draft_lens))


def on_lanes(decode: Decode, settings: Sequence[Setting], lane_of: dict[Decoder, int]) -> Decode:
    """`decode` for numbers of settings: each decoder has one lane, loaded for the longest draft."""

    def decode_setting(number: int, request: Request) -> TurnMetrics:
        setting = settings[number]
        request = msgspec.structs.replace(request, draft_len=setting.draft_len or None)
        return decode(lane_of[setting.decoder], request)

    return decode_setting


def compared(done: Measurement, a: Setting, b: Setting, seed: int) -> Pair:
    """Setting `b` over setting `a`, by the requests that both finished."""
    of_a, of_b = ([m for m in done.measured if done.settings[m.lane] == setting] for setting in (a, b))
    return compare(a.label, of_a, b.label, of_b, seed)


def rows_of(done: Measurement, seed: int) -> tuple[DraftLenRow, ...]:
    """A row for each setting that has requests, its tokens held to AR's."""
    rows = []
    for number, setting in enumerate(done.settings):
        turns = [m.turn for m in done.measured if m.lane == number]
        if turns:
            alike = [m.turn for m in done.measured if done.settings[m.lane].decoder == setting.decoder]
            tau = chain_tau(alike, setting.draft_len) if setting.draft_len else None
            rows.append(_row(setting, turns, tau, compared(done, AR, setting, seed)))
    return tuple(rows)


def _row(setting: Setting, turns: Sequence[TurnMetrics], tau: float | None, pair: Pair) -> DraftLenRow:
    sums = pooled(turns)
    row = DraftLenRow(
        decoder=setting.decoder,
        draft_len=setting.draft_len,
        n_requests=len(turns),
        rounds=sums.rounds,
        equal=pair.equal,
        fault=pair.fault,
        tokens_per_round=sums.tokens_per_round,
        acceptance_rate=sums.acceptance_rate,
        branch_hit_rate=sums.branch_hit_rate,
        host_launches_per_round=sums.host_launches_per_round,
        chain_tokens_per_round=tau,
    )
    parts = round_parts(turns)
    if parts is None or sums.ms_per_token is None or pair.equal is False:
        return row
    predicted = parts.predicted
    return msgspec.structs.replace(
        row,
        t_d_ms=_ms(parts.t_d),
        t_v_ms=_ms(parts.t_v),
        t_branch_ms=_ms(parts.t_branch),
        t_sync_ms=_ms(parts.t_sync),
        round_ms=_ms(parts.round_ns),
        predicted_round_ms=None if predicted is None else _ms(predicted.round_ns),
        tokens_per_s=1000 / sums.ms_per_token,
        predicted_tokens_per_s=None if predicted is None else predicted.tokens_per_s,
        measured_over_predicted=None if predicted is None else predicted.round_ns / parts.round_ns,
        over_ar=None if setting == AR else pair.decode,
    )


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / NS_PER_MS
