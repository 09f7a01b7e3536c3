"""What bounds a round now, in one sentence with its figures.

A sentence states what was measured over the last rounds. Where a comparison needs a figure that was not
measured (an AR step, a ceiling, a draft from scratch) it says so instead of assuming one.
"""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core import roofline
from specmon.core.metrics.bandwidth import no_fraction
from specmon.core.metrics.formulas import Formula, formulas
from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.round_time import RoundTime, round_time
from specmon.core.metrics.text import ms, percent
from specmon.core.metrics.turn import TurnMetrics

MIN_ROUNDS = 8
SHORT_COLUMNS = 74
WORTH_SAYING = 0.02  # share of the round below which exposed drafting goes unmentioned
WEAK_ACCEPTANCE = 0.2


@dataclass(frozen=True, kw_only=True)
class Why:
    """What bounds the round: a sentence, one of at most 74 columns, and the formulas behind them."""

    text: str
    short: str
    formulas: list[Formula]


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
    said = _loses(lane, turn, time) or _largest_share(turn, time)
    return Why(text=said.text, short=said.short[:SHORT_COLUMNS], formulas=formulas(lane, turn, time))


def _too_few(n_rounds: int, turn: TurnMetrics) -> _Said:
    if turn.end is not None:
        text = f"too few rounds to say what bounds them: {n_rounds} of at least {MIN_ROUNDS}"
    else:
        text = f"waiting for {MIN_ROUNDS} rounds before judging: {n_rounds} so far"
    return _Said(text, text)


def _loses(lane: LaneMetrics, turn: TurnMetrics, time: RoundTime) -> _Said | None:
    """Speculation that is slower than plain decoding, with what makes its round dear."""
    if turn.lane.decoder == "ar" or lane.ar_step is None:
        return None
    ar_ns, ns_per_token = lane.ar_step.ns, time.round_ns / time.tokens_per_round
    if ns_per_token <= ar_ns:
        return None
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
        _idle: shares.wait_ns + shares.other_ns,
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
        f"{said.short} · drafting exposed {ms(time.draft_ns)} ms",
    )


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


def _idle(turn: TurnMetrics, time: RoundTime) -> _Said:
    idle_ns = time.shares.wait_ns + time.shares.other_ns
    share = percent(idle_ns, time.shares.total_ns)
    launches = "" if time.launches is None else f", {time.launches:,.0f} host launches a round"
    text = f"no device works for {ms(idle_ns / time.n_rounds)} ms, {share} of a {ms(time.round_ns)} ms round"
    return _Said(
        f"{text}: the host bounds it{launches}.", f"host: devices idle {share} of {ms(time.round_ns)} ms"
    )
