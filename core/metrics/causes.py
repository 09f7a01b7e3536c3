"""Which one thing holds decoding back: eight causes, each found by a rule with stated figures and thresholds.

A rule says what it saw and by how much decoding would gain without it, from the judged rounds alone: round time
÷ round time without what it costs, at equal tokens. The largest gain is named; verification near its floor is
named where nothing else is, for there little is left to win. docs/metrics.md has the formulas and why the
thresholds lie there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specmon.core.events import Round
from specmon.core.metrics.formulas import Formula, fewer_tokens, tau_per_ms
from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.round_time import RoundTime
from specmon.core.metrics.slots import padded_rows, unused_branches
from specmon.core.metrics.spans import intersect, measure, round_windows, spans_of
from specmon.core.metrics.text import launches, ms, percent
from specmon.core.metrics.throttle import throttled
from specmon.core.metrics.turn import TurnMetrics

CauseName = Literal[
    "throttling",
    "launch-bound",
    "no overlap",
    "slow branches",
    "empty slots",
    "weak drafter",
    "K too deep",
    "verify-bound",
]

LEAST_GAIN = 1.10  # a cause is named where decoding without it would be a tenth faster
IDLE_SHARE = 0.25  # of the round without any device at work: launch-bound
HIDDEN_SHARE = 0.5  # of the branch drafting that could run beside verification and does: less is no overlap
WEAK_ACCEPTANCE = 0.5  # a drafter right more often than this is not called weak
NEAR_CEILING = 0.70  # floor ÷ verification: verify-bound
VERIFY_SHARE = 0.75  # verification ÷ round: verify-bound
LEAST_DEEP_ROUNDS = 8  # rounds that drafted the whole K, before it is called too deep


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What holds decoding back. `gain`: how many times faster it would be without (modelled), None if unknown.

    `text` and `short` start with the name; `formula` is the rule with its figures.
    """

    name: CauseName
    gain: float | None
    text: str
    short: str
    formula: Formula


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the rules look at: the last rounds of a turn, taken apart."""

    lane: LaneMetrics
    turn: TurnMetrics
    time: RoundTime
    rounds: Sequence[Round]


def cause_of(lane: LaneMetrics, turn: TurnMetrics, time: RoundTime) -> Cause | None:
    """Name what holds back the rounds that `time` was made from most; None where no rule holds.

    Throttling of unknown cost comes first, for what slow clocks cost is in every other time.
    """
    judged = Judged(lane=lane, turn=turn, time=time, rounds=turn.rounds[-time.n_rounds :])
    rules = (throttling, launch_bound, no_overlap, slow_branches, empty_slots, drafter)
    found = [cause for rule in rules if (cause := rule(judged)) is not None]
    if found:
        return max(found, key=lambda cause: math.inf if cause.gain is None else cause.gain)
    return verify_bound(judged)


def throttling(judged: Judged) -> Cause | None:
    """A device's clock is held down and the target reads more slowly for it."""
    seen = throttled(judged.lane, judged.turn, judged.time.n_rounds)
    if seen is None:
        return None
    reasons = ", ".join(seen.reasons) or "no reason given"
    text = f"throttling: {seen.device} at {seen.clock_mhz:,} of {seen.full_clock_mhz:,} MHz ({reasons})"
    lost = "" if seen.rate_share is None else percent(1 - seen.rate_share, 1)
    fall = f", the target reads {lost} fewer bytes a second" if lost else ""
    round_ns = judged.time.round_ns
    return _cause(
        "throttling",
        None if seen.saved_ns is None else round_ns / max(round_ns - seen.saved_ns, 1.0),
        f"{text}{fall}.",
        f"throttling: {seen.device} at {seen.clock_mhz:,} of {seen.full_clock_mhz:,} MHz"
        f"{f' · bytes/s −{lost}' if lost else ''}",
        "SM clock held ÷ full, bytes/s of verification held ÷ before",
        f"{seen.clock_mhz:,} ÷ {seen.full_clock_mhz:,} MHz",
        f"{percent(seen.share, 1)} of the samples held: {reasons}",
    )


def launch_bound(judged: Judged) -> Cause | None:
    """No device works for much of the round: the host does not give out work fast enough."""
    time = judged.time
    idle_ns = time.idle_ns
    if idle_ns < IDLE_SHARE * time.round_ns:
        return None
    given = "" if time.launches is None else f", {launches(time.launches)} a round"
    share = percent(idle_ns, time.round_ns)
    return _cause(
        "launch-bound",
        time.round_ns / max(time.round_ns - idle_ns, 1.0),
        f"launch-bound: no device works for {ms(idle_ns)} of {ms(time.round_ns)} ms a round ({share}){given}.",
        f"launch-bound: devices idle {share} of {ms(time.round_ns)} ms{given}",
        "time without any device busy ÷ round",
        f"{ms(idle_ns)} ÷ {ms(time.round_ns)}",
        f"{share}; from {percent(IDLE_SHARE, 1)} on the host bounds the round",
    )


def no_overlap(judged: Judged) -> Cause | None:
    """SSD whose branches are not drafted while the target verifies."""
    if judged.turn.lane.decoder != "ssd":
        return None
    time, branch_ns, hidden_ns = judged.time, *branch_drafting(judged.rounds)
    could_ns = min(branch_ns, time.t_v)
    if not could_ns or hidden_ns >= HIDDEN_SHARE * could_ns:
        return None
    gain = time.round_ns / max(time.round_ns - (could_ns - hidden_ns), 1.0)
    if gain < LEAST_GAIN:
        return None
    one = len(judged.turn.lane.devices) < 2
    where = "target and draft share one device" if one else "the devices wait for each other"
    return _cause(
        "no overlap",
        gain,
        f"no overlap: {ms(branch_ns)} ms of branch drafting a round, {ms(hidden_ns)} of it while the target "
        f"verifies ({where}).",
        f"no overlap: {ms(hidden_ns)} of {ms(branch_ns)} ms branch drafting hidden",
        "branch drafting during verification ÷ min(branch drafting, t_v)",
        f"{ms(hidden_ns)} ÷ min({ms(branch_ns)}, {ms(time.t_v)})",
        f"{percent(hidden_ns, could_ns)} hidden; hiding the rest: {gain:.2f}×",
    )


def slow_branches(judged: Judged) -> Cause | None:
    """Branches that take longer to draft than the target verifies: what outlasts it nothing can hide.

    Slots that never hit are another cause's (`empty_slots`), so that no time counts for both.
    """
    time, branch_ns = judged.time, branch_drafting(judged.rounds)[0]
    unused = unused_branches(judged.rounds)
    used_ns = branch_ns if unused is None else branch_ns * (1 - unused.share)
    outlasts_ns = used_ns - time.t_v
    gain = time.round_ns / max(time.round_ns - outlasts_ns, 1.0)
    if gain < LEAST_GAIN:
        return None
    share = percent(outlasts_ns, time.round_ns)
    them = "them" if unused is None else "those that hit"
    return _cause(
        "slow branches",
        gain,
        f"slow branches: drafting {them} takes {ms(used_ns)} ms a round, verification {ms(time.t_v)}: "
        f"{ms(outlasts_ns)} ms cannot be hidden, {share} of a {ms(time.round_ns)} ms round.",
        f"slow branches: {ms(used_ns)} ms against {ms(time.t_v)} of verifying, {share} of round",
        "round ÷ (round − (branch drafting of slots that hit − t_v))",
        f"{ms(time.round_ns)} ÷ ({ms(time.round_ns)} − ({ms(used_ns)} − {ms(time.t_v)}))",
        f"{gain:.2f}× if branches took no longer than verification",
    )


def branch_drafting(rounds: Sequence[Round]) -> tuple[float, float]:
    """Branch drafting in ns a round, inside the rounds: all of it, and what verification hides."""
    branch = intersect(spans_of(rounds, frozenset({"branch_draft"})), round_windows(rounds))
    hidden = intersect(branch, spans_of(rounds, frozenset({"verify"})))
    return measure(branch) / len(rounds), measure(hidden) / len(rounds)


def empty_slots(judged: Judged) -> Cause | None:
    """Rows or branches that nobody used cost as much as those that somebody did."""
    found = [cause for rule in (_empty_branches, _empty_rows) if (cause := rule(judged)) is not None]
    worth = [cause for cause in found if (cause.gain or 0.0) >= LEAST_GAIN]
    return max(worth, key=lambda cause: cause.gain or 0.0, default=None)


def _empty_branches(judged: Judged) -> Cause | None:
    """Branches are drafted for longer than the target verifies, and most of their slots never hit."""
    unused = unused_branches(judged.rounds)
    if unused is None or len(judged.turn.lane.devices) < 2:
        return None
    branch_ns, hidden_ns = branch_drafting(judged.rounds)
    exposed_ns = branch_ns - hidden_ns
    needed_ns = max(branch_ns * (1 - unused.share) - hidden_ns, 0.0)
    slots = f"{unused.empty} of {unused.slots} branches a round are for outcomes that never hit"
    return _slots(
        judged,
        exposed_ns - needed_ns,
        f"{slots} in {unused.rounds} rounds; preparing them outlasts verification by {ms(exposed_ns)} ms",
        f"{unused.empty} of {unused.slots} branches a round never hit",
        "branch drafting exposed, less what the slots that hit would expose",
        f"{ms(exposed_ns)} − {ms(needed_ns)} ms of {ms(judged.time.round_ns)}",
    )


def _empty_rows(judged: Judged) -> Cause | None:
    """Short drafts take as long to verify as full ones, though one row alone takes far less."""
    padded = padded_rows(judged.rounds, judged.lane.ar_step_ns)
    if padded is None or (judged.time.verify_fraction or 0.0) >= NEAR_CEILING:
        return None
    rows = f"verifying {padded.rows} of {padded.most} rows takes {ms(padded.short_ns)} ms"
    return _slots(
        judged,
        padded.saved_ns,
        f"{rows}, all {ms(padded.full_ns)}; an AR step {ms(padded.ar_ns)}",
        f"{rows}, an AR step {ms(padded.ar_ns)}",
        "(t_v of short drafts − AR step)·their share of rounds",
        f"{ms(padded.saved_ns)} ms of {ms(judged.time.round_ns)}",
    )


def _slots(judged: Judged, saved_ns: float, text: str, short: str, expression: str, values: str) -> Cause:
    round_ns = judged.time.round_ns
    gain = round_ns / max(round_ns - saved_ns, 1.0)
    result = f"{gain:.2f}× if only used slots were paid for"
    return _cause(
        "empty slots", gain, f"empty slots: {text}.", f"empty slots: {short}", expression, values, result
    )


def drafter(judged: Judged) -> Cause | None:
    """A drafter that no depth makes pay is weak; else a K beyond what it can keep up is too deep."""
    return weak_drafter(judged) or k_too_deep(judged)


def weak_drafter(judged: Judged) -> Cause | None:
    """Acceptance too low for any K drafted to beat plain decoding.

    Without a measured AR step the round less its exposed drafting stands for it: it is no shorter.
    """
    time, by_k = judged.time, tau_per_ms(judged.time, judged.lane.ar_step_ns)
    chance = time.acceptance.chance
    plain_ns = judged.lane.ar_step_ns or time.round_ns - time.draft_ns
    if not by_k or chance is None or chance > WEAK_ACCEPTANCE or plain_ns <= 0:
        return None
    gain = time.round_ns / (time.tokens_per_round * plain_ns)
    if gain < LEAST_GAIN or max(by_k.values()) >= 1e6 / plain_ns:
        return None
    needed = time.round_ns / plain_ns
    kept, basis = percent(chance, 1), "AR step" if judged.lane.ar_step else "round without drafting"
    return _cause(
        "weak drafter",
        gain,
        f"weak drafter: {kept} of judged tokens are right, τ {time.tokens_per_round:.2f} where break-even is "
        f"{needed:.2f}: no K up to {time.draft_len} pays.",
        f"weak drafter: {kept} right · τ {time.tokens_per_round:.2f}, break-even {needed:.2f}",
        f"best τ(k) per ms for k ≤ K against one token per {basis}",
        f"{max(by_k.values()):.3g} against {1e6 / plain_ns:.3g} tokens/ms, {kept} right",
        f"not drafting: {gain:.2f}×",
    )


def k_too_deep(judged: Judged) -> Cause | None:
    """A shorter draft gives more tokens a ms, by the acceptance and the drafting time that were measured.

    Where even that one is slower than a measured AR step, its length is not what is wrong.
    """
    time, by_k = judged.time, tau_per_ms(judged.time, judged.lane.ar_step_ns)
    positions = time.acceptance.positions()
    if len(by_k) < 2 or positions[-1].drafted < LEAST_DEEP_ROUNDS:
        return None
    best = max(by_k, key=lambda k: by_k[k])
    gain = by_k[best] / by_k[time.draft_len]
    ar_ns = judged.lane.ar_step_ns
    if gain < LEAST_GAIN or (ar_ns is not None and by_k[best] < 1e6 / ar_ns):
        return None
    first, last = positions[0].unconditional, positions[-1].unconditional
    return _cause(
        "K too deep",
        gain,
        f"K too deep: position 1 is kept in {percent(first or 0.0, 1)} of rounds, position {time.draft_len} in "
        f"{percent(last or 0.0, 1)}; K {best} would give {gain:.2f}× the tokens a ms (modelled).",
        f"K too deep: K {best} gives {gain:.2f}× the tokens a ms of K {time.draft_len}",
        f"τ(k) ÷ ({fewer_tokens(judged.lane)}), at the best k ÷ at K",
        f"{by_k[best]:.3g} ÷ {by_k[time.draft_len]:.3g} tokens/ms at K {best} and {time.draft_len}",
        f"{gain:.2f}×",
    )


def verify_bound(judged: Judged) -> Cause | None:
    """Verification is most of the round and near the read ceiling: little is left to win."""
    time = judged.time
    if time.floor_ns is None or time.verify_fraction is None or time.t_v < VERIFY_SHARE * time.round_ns:
        return None
    if time.verify_fraction < NEAR_CEILING:
        return None
    share, near = percent(time.t_v, time.round_ns), percent(time.verify_fraction, 1)
    left = max(time.t_v - time.floor_ns, 0.0)
    return _cause(
        "verify-bound",
        time.round_ns / max(time.round_ns - left, 1.0),
        f"verify-bound: {share} of a {ms(time.round_ns)} ms round, at {near} of the read ceiling: {ms(left)} ms "
        "left to win there.",
        f"verify-bound: {share} of {ms(time.round_ns)} ms, {near} of ceiling",
        "t_v ÷ round, floor ÷ t_v",
        f"{ms(time.t_v)} ÷ {ms(time.round_ns)}, {ms(time.floor_ns)} ÷ {ms(time.t_v)}",
        f"{share}, {near}; from {percent(VERIFY_SHARE, 1)} and {percent(NEAR_CEILING, 1)} on little is left",
    )


def _cause(
    name: CauseName, gain: float | None, text: str, short: str, expression: str, values: str, result: str
) -> Cause:
    formula = Formula(name=f"cause: {name}", expression=expression, values=values, result=result)
    return Cause(name=name, gain=gain, text=text, short=short, formula=formula)
