"""The formulas behind WHY, each with the figures it was filled with, or with what is missing to fill it."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core import roofline
from specmon.core.metrics.bandwidth import no_fraction, sol_fraction
from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.round_time import RoundTime
from specmon.core.metrics.text import ms, percent
from specmon.core.metrics.turn import TurnMetrics

AR_NOT_MEASURED = "AR step not measured"
NO_DRAFT_SEEN = "no draft from scratch in these rounds"


@dataclass(frozen=True, kw_only=True)
class Formula:
    """One figure: its name, how it is computed, the same with figures, and the result in words."""

    name: str
    expression: str
    values: str
    result: str


def formulas(lane: LaneMetrics, turn: TurnMetrics, time: RoundTime) -> list[Formula]:
    """The formulas that apply to the turn's decoder."""
    shown = [_round(time), _floor(turn, time), _sol(turn, time)]
    if turn.lane.decoder != "ar":
        shown += [break_even(lane, time), _tau_per_ms(lane, time), _favoured(lane, time)]
    if turn.lane.decoder == "ssd":
        shown += [ssd_ceiling(time), ssd_now(time)]
    return shown


def _round(time: RoundTime) -> Formula:
    verify, draft, accept, wait, other = (
        ms(ns / time.n_rounds)
        for ns in (
            time.shares.verify_ns,
            time.shares.draft_ns,
            time.shares.accept_ns,
            time.shares.wait_ns,
            time.shares.other_ns,
        )
    )
    return Formula(
        name="round",
        expression="verify + draft exposed + accept and handoff + wait + other",
        values=f"{verify} + {draft} + {accept} + {wait} + {other}",
        result=f"{ms(time.round_ns)} ms, mean of {time.n_rounds} rounds",
    )


def _floor(turn: TurnMetrics, time: RoundTime) -> Formula:
    expression = "bytes the target must read ÷ read ceiling"
    ceiling = _read_ceiling(turn)
    if time.floor_ns is None or ceiling is None:
        reason = no_fraction(turn, 0) or "the target's bytes are not known"
        return Formula(name="floor", expression=expression, values="", result=f"n/a: {reason}")
    n_bytes = time.floor_ns * ceiling / roofline.NS_PER_S
    return Formula(
        name="floor",
        expression=expression,
        values=f"{n_bytes / 1e9:.3f} GB ÷ {ceiling / 1e9:,.1f} GB/s",
        result=f"{ms(time.floor_ns)} ms; ÷ τ {time.tokens_per_round:.2f} ="
        f" {ms(time.floor_ns / time.tokens_per_round)} ms/token",
    )


def _read_ceiling(turn: TurnMetrics) -> float | None:
    info = turn.devices[0] if turn.devices else None
    return None if info is None else info.read_ceiling


def _sol(turn: TurnMetrics, time: RoundTime) -> Formula:
    fraction = sol_fraction(turn, time.n_rounds)
    known = fraction is not None and time.floor_ns is not None
    return Formula(
        name="sol_fraction",
        expression="floor ÷ round",
        values=f"{ms(time.floor_ns or 0)} ÷ {ms(time.round_ns)}" if known else "",
        result=percent(fraction, 1)
        if fraction is not None
        else f"n/a: {no_fraction(turn, 0) or 'bytes unknown'}",
    )


def break_even(lane: LaneMetrics, time: RoundTime) -> Formula:
    """Tokens per round from which these rounds beat AR."""
    name, expression = "break-even τ", "round ÷ AR step"
    if lane.ar_step is None:
        return Formula(name=name, expression=expression, values="", result=AR_NOT_MEASURED)
    step = lane.ar_step
    needed = roofline.break_even_tau(time.round_ns, step.ns)
    basis = f"AR step: {step.steps} steps at KV {step.kv_len:,}"
    return Formula(
        name=name,
        expression=expression,
        values=f"{ms(time.round_ns)} ÷ {ms(step.ns)}",
        result=f"{needed:.2f}, τ is {time.tokens_per_round:.2f}; {basis}",
    )


def ssd_ceiling(time: RoundTime) -> Formula:
    """What an SSD that always hits could gain over SD."""
    name, expression = "SSD ceiling over SD", "(K·t_d + t_v) ÷ max(t_v, t_branch)"
    if time.t_d is None or time.t_branch is None or not time.t_v:
        missing = NO_DRAFT_SEEN if time.t_d is None else "no branch draft in these rounds"
        return Formula(
            name=name, expression=expression, values="", result=f"t_d, t_branch not measured: {missing}"
        )
    gain = roofline.ssd_ceiling(time.draft_len, time.t_d, time.t_v, time.t_branch)
    return Formula(
        name=name,
        expression=expression,
        values=f"({time.draft_len}·{ms(time.t_d)} + {ms(time.t_v)}) ÷ {ms(max(time.t_v, time.t_branch))}",
        result=f"{gain:.2f}×",
    )


def ssd_now(time: RoundTime) -> Formula:
    """What SSD gains over a modelled SD: the same round with its whole draft exposed."""
    name, expression = "SSD over SD now (modelled)", "(round − draft exposed + K·t_d) ÷ round"
    if time.t_d is None or time.sd_round_ns is None:
        return Formula(
            name=name, expression=expression, values="", result=f"t_d not measured: {NO_DRAFT_SEEN}"
        )
    drafting = f"{time.draft_len}·{ms(time.t_d)}"
    return Formula(
        name=name,
        expression=expression,
        values=f"({ms(time.round_ns)} − {ms(time.draft_ns)} + {drafting}) ÷ {ms(time.round_ns)}",
        result=f"{time.sd_round_ns / time.round_ns:.2f}×",
    )


def tau_per_ms(time: RoundTime, ar_ns: int | None = None) -> dict[int, float]:
    """Tokens a ms had only the first k been drafted; a K that was never drafted is not in it.

    Each token fewer takes off its part of the exposed drafting and, where an AR step is measured, of what
    verification takes beyond it (one row); without that, verification is held.
    """
    longest = time.draft_len
    if not longest:
        return {}
    rows_ns = 0.0 if ar_ns is None else max(time.t_v - ar_ns, 0.0)
    per_token_ns = (time.draft_ns + rows_ns) / longest
    rounds_ns = {k: time.round_ns - per_token_ns * (longest - k) for k in range(1, longest + 1)}
    by_prefix = time.acceptance.tau_by_prefix()
    return {k: by_prefix[k] * 1e6 / ns for k, ns in rounds_ns.items() if k in by_prefix and ns > 0}


def _favoured(lane: LaneMetrics, time: RoundTime) -> Formula:
    by_k = tau_per_ms(time, lane.ar_step_ns)
    name, expression = "K favoured (modelled)", "the k of the most tokens per ms, of those drafted"
    if not by_k:
        return Formula(name=name, expression=expression, values="", result="nothing drafted")
    best = max(by_k, key=lambda k: by_k[k])
    at_most = "" if lane.ar_step is not None else "at most "  # rows that cost time favour a smaller one yet
    return Formula(
        name=name,
        expression=expression,
        values="",
        result=f"{at_most}K {best}; K {time.draft_len + 1}+: never drafted, not guessed",
    )


def _tau_per_ms(lane: LaneMetrics, time: RoundTime) -> Formula:
    by_k = tau_per_ms(time, lane.ar_step_ns)
    return Formula(
        name="τ per ms (modelled)",
        expression=f"τ(k) ÷ ({fewer_tokens(lane)})",
        values=f"K {' '.join(str(k) for k in by_k)}" if by_k else "",
        result=" ".join(_short(value) for value in by_k.values()) or "nothing drafted",
    )


def fewer_tokens(lane: LaneMetrics) -> str:
    """How the round of a shorter draft is modelled, in words."""
    if lane.ar_step is None:
        return "round − draft exposed·(1 − k/K), verification held"
    return "round − (draft exposed + t_v − AR step)·(1 − k/K)"


def _short(value: float) -> str:
    """ ".51", "1.20", ".034": two or three digits, without the zero in front."""
    return (f"{value:.2f}" if value >= 0.1 else f"{value:.2g}").removeprefix("0")
