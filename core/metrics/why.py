"""What bounds a round now, in one sentence with its figures.

A sentence states what was measured over the last rounds. Where a comparison needs a figure that was not
measured (an AR step, a ceiling, a draft from scratch) it says so instead of assuming one.
"""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core import roofline
from specmon.core.metrics.bandwidth import no_fraction
from specmon.core.metrics.causes import Cause, cause_of
from specmon.core.metrics.formulas import Formula, formulas
from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.round_time import RoundTime, round_time
from specmon.core.metrics.text import ms, percent
from specmon.core.metrics.turn import TurnMetrics

MIN_ROUNDS = 8
SHORT_COLUMNS = 70
WORTH_SAYING = 0.02  # share of the round below which exposed drafting goes unmentioned
WEAK_ACCEPTANCE = 0.2


@dataclass(frozen=True, kw_only=True)
class Why:
    """What bounds the round: a sentence, one of at most 70 columns, and the formulas behind them.

    `cause` is the one cause that a rule of `causes` found, None where none holds.
    """

    text: str
    short: str
    formulas: list[Formula]
    cause: Cause | None = None


@dataclass(frozen=True)
class _Said:
    text: str
    short: str


def why(lane: LaneMetrics, turn: TurnMetrics, last: int = 64) -> Why:
    """Say what bounds the turn's rounds, judged by the last of them."""
    time = round_time(turn, last)
    if time is None or time.n_rounds < MIN_ROUNDS:
        said = _too_few(0 if time is None else time.n_rounds, turn)
        return Why(text=said.text, short=said.short, formulas=[])
    if time.tokens == 0 or time.shares.total_ns == 0:
        text = "these rounds hold no tokens or no time, so nothing bounds them"
        return Why(text=text, short=text, formulas=[])
    cause = cause_of(lane, turn, time)
    shown = formulas(lane, turn, time)
    if cause is None:
        said = _loses(lane, turn, time) or _largest_share(turn, time)
        return Why(text=said.text, short=said.short[:SHORT_COLUMNS], formulas=shown)
    said = _with_context(lane, turn, time, cause)
    return Why(
        text=said.text, short=said.short[:SHORT_COLUMNS], formulas=[cause.formula, *shown], cause=cause
    )


def _with_context(lane: LaneMetrics, turn: TurnMetrics, time: RoundTime, cause: Cause) -> _Said:
    """The cause, then what it leads to: the loss against AR, or drafting that is still exposed."""
    said = _Said(cause.text, cause.short)
    if cause.name == "verify-bound":
        return _with_drafting(turn, time, said)
    if _is_slower_than_ar(lane, turn, time) and lane.ar_step is not None:
        per_token = f"{ms(time.round_ns / time.tokens_per_round)} ms/token against AR's {ms(lane.ar_step.ns)}"
        return _Said(f"{said.text} {per_token}.", said.short)
    return said


def _is_slower_than_ar(lane: LaneMetrics, turn: TurnMetrics, time: RoundTime) -> bool:
    if turn.lane.decoder == "ar" or lane.ar_step is None:
        return False
    return time.round_ns > time.tokens_per_round * lane.ar_step.ns


def _too_few(n_rounds: int, turn: TurnMetrics) -> _Said:
    if turn.end is not None:
        text = f"too few rounds to say what bounds them: {n_rounds} of at least {MIN_ROUNDS}"
    else:
        text = f"waiting for {MIN_ROUNDS} rounds before judging: {n_rounds} so far"
    return _Said(text, text)


def _loses(lane: LaneMetrics, turn: TurnMetrics, time: RoundTime) -> _Said | None:
    """Speculation that is slower than plain decoding, with what makes its round dear."""
    if not _is_slower_than_ar(lane, turn, time) or lane.ar_step is None:
        return None
    ar_ns, ns_per_token = lane.ar_step.ns, time.round_ns / time.tokens_per_round
    name, tau = turn.lane.decoder.upper(), time.tokens_per_round
    needed = roofline.break_even_tau(time.round_ns, ar_ns)
    per_token = f"{ms(ns_per_token)} ms/token"
    return _Said(
        f"{name} loses against AR here: {ms(time.round_ns)} ms a round ÷ τ {tau:.2f} = {per_token}, "
        f"an AR step takes {ms(ar_ns)}. It needs τ {needed:.2f}: {_dearest(time, ar_ns)}.",
        f"{name} loses to AR: {per_token} against {ms(ar_ns)} · τ {tau:.2f}, needs {needed:.2f}",
    )


def _dearest(time: RoundTime, ar_ns: int) -> str:
    """The largest of what a round costs beyond an AR step."""
    parts = {
        f"verifying takes {time.t_v / ar_ns:.2f} AR steps": time.t_v - ar_ns,
        f"drafting is exposed for {ms(time.draft_ns)} ms": time.draft_ns,
        f"{ms(time.other_ns)} ms are neither drafting nor verifying": time.other_ns,
    }
    return max(parts, key=lambda text: parts[text])


def _largest_share(turn: TurnMetrics, time: RoundTime) -> _Said:
    shares = time.shares
    parts = {
        _verify: shares.verify_ns,
        _drafting: shares.draft_ns,
        _accepting: shares.accept_ns,
    }
    return max(parts, key=lambda say: parts[say])(turn, time)


def _verify(turn: TurnMetrics, time: RoundTime) -> _Said:
    share = f"{percent(time.shares.verify_ns, time.shares.total_ns)} of a {ms(time.round_ns)} ms round"
    short = f"verify {percent(time.shares.verify_ns, time.shares.total_ns)} of {ms(time.round_ns)} ms"
    if time.floor_ns is not None:
        ceiling = percent(time.floor_ns, time.t_v)
        left = f": {ms(time.t_v - time.floor_ns)} ms left to win there" if time.t_v > time.floor_ns else ""
        said = _Said(
            f"verify is {share}, at {ceiling} of the read ceiling{left}.", f"{short}, {ceiling} of ceiling"
        )
    else:
        reason = no_fraction(turn, 0) or "the target's bytes are not known"
        said = _Said(f"verify is {share} ({reason}: no % of the read ceiling).", f"{short} ({reason})")
    return _with_drafting(turn, time, said)


def _with_drafting(turn: TurnMetrics, time: RoundTime, said: _Said) -> _Said:
    """Add what drafting still costs, or that the drafter hardly helps."""
    if time.acceptance_rate is not None and time.acceptance_rate < WEAK_ACCEPTANCE:
        kept = percent(time.acceptance_rate, 1)
        return _Said(f"{said.text} Only {kept} of drafted tokens are kept.", f"{said.short} · {kept} kept")
    if time.draft_ns < WORTH_SAYING * time.round_ns:
        return said
    misses = f" ({percent(time.miss_rate, 1)} misses)" if time.miss_rate else ""
    before = "Drafting still exposed" if turn.lane.decoder == "ssd" else "Drafting before it"
    return _Said(
        f"{said.text} {before}: {ms(time.draft_ns)} ms{misses}.",
        _if_it_fits(said.short, f" · draft exposed {ms(time.draft_ns)} ms"),
    )


def _if_it_fits(short: str, more: str) -> str:
    return short + more if len(short) + len(more) <= SHORT_COLUMNS else short


def _drafting(turn: TurnMetrics, time: RoundTime) -> _Said:
    share = percent(time.shares.draft_ns, time.shares.total_ns)
    text = f"drafting is exposed for {ms(time.draft_ns)} ms, {share} of a {ms(time.round_ns)} ms round"
    short = f"drafting exposed {share} of {ms(time.round_ns)} ms"
    if time.miss_rate is not None:
        missed = percent(time.miss_rate, 1)
        return _Said(f"{text}: {missed} of rounds missed their branches.", f"{short} · {missed} misses")
    verify = ms(time.t_v)
    return _Said(f"{text}; verifying takes {verify} ms.", f"{short} · verify {verify} ms")


def _accepting(turn: TurnMetrics, time: RoundTime) -> _Said:
    share = percent(time.shares.accept_ns, time.shares.total_ns)
    took = ms(time.shares.accept_ns / time.n_rounds)
    text = f"accept and handoff take {took} ms, {share} of a {ms(time.round_ns)} ms round."
    return _Said(text, f"accept and handoff {share} of {ms(time.round_ns)} ms")
