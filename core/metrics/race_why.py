"""Why the fastest lane of a race is ahead of the next, in one sentence with its figures."""

from __future__ import annotations

from specmon.core import roofline
from specmon.core.metrics.formulas import Formula
from specmon.core.metrics.race import Race, Standing, compare_lanes
from specmon.core.metrics.round_time import round_time
from specmon.core.metrics.text import ms
from specmon.core.metrics.turn import NS_PER_MS
from specmon.core.metrics.why import MIN_ROUNDS, SHORT_COLUMNS, Why

LAST = 64  # rounds whose parts the ceiling is modelled from


def race_why(race: Race) -> Why:
    """Compare the two lanes with the least ms/token, by the figures of their rows."""
    lanes = [row for row in race.standings if not row.failed and _judged(row)]
    if len(lanes) < 2:
        text = f"waiting for two lanes to decode {MIN_ROUNDS} rounds"
        return Why(text=text, short=text, formulas=[])
    first, second = sorted(lanes, key=lambda row: row.turn.ms_per_token or float("inf"))[:2]
    lead, cause = _lead(first, second), _cause(first, second)
    return Why(
        text=f"{lead}: {cause}.",
        short=f"{lead} · {cause}"[:SHORT_COLUMNS] if len(lead) + len(cause) + 3 <= SHORT_COLUMNS else lead,
        formulas=[_ms_per_token(row) for row in (first, second)],
    )


def _judged(row: Standing) -> bool:
    return row.turn.n_rounds >= MIN_ROUNDS and row.turn.decoded_tokens > 0 and row.clock_ns > 0


def _lead(first: Standing, second: Standing) -> str:
    verdict = compare_lanes(second.turn, first.turn, first.unlike or second.unlike)
    if verdict.ratio is not None and round(verdict.ratio, 2) == 1.0:
        return f"{first.letter} and {second.letter} are level"
    if verdict.ratio is not None:
        about = "~" if verdict.provisional else ""
        return f"{first.letter} beats {second.letter} by {about}{verdict.ratio:.2f}×"
    takes = [f"{row.letter} {row.turn.ms_per_token:.2f}" for row in (first, second)]
    return f"{takes[0]}, {takes[1]} ms/token (no ratio: {verdict.output})"


def _cause(first: Standing, second: Standing) -> str:
    decoders = first.turn.lane.decoder, second.turn.lane.decoder
    if decoders == ("ssd", "sd"):
        return _hidden_drafting(first, second)
    (tau, round_ns), (other_tau, other_ns) = _per_round(first), _per_round(second)
    if decoders[0] == "ar":
        needed = roofline.break_even_tau(other_ns, round_ns)
        return f"{second.letter} needs τ {needed:.2f} to break even and has {other_tau:.2f}"
    return (
        f"τ {tau:.2f} in rounds of {ms(round_ns)} ms against τ {other_tau:.2f} in rounds of {ms(other_ns)} ms"
    )


def _per_round(row: Standing) -> tuple[float, float]:
    """τ and ns a round, of all of a judged lane's rounds."""
    turn = row.turn
    return turn.decoded_tokens / turn.n_rounds, turn.decode_ns / turn.n_rounds


def _hidden_drafting(ssd: Standing, sd: Standing) -> str:
    """How much of SD's drafting SSD hides; the ceiling is modelled from the parts of the last rounds."""
    exposed, drafting = ((row.draft_ms or 0.0) * NS_PER_MS for row in (ssd, sd))
    hidden = f"{ms(drafting - exposed)} of {sd.letter}'s {ms(drafting)} ms of drafting is hidden"
    time, other = round_time(ssd.turn, LAST), round_time(sd.turn, LAST)
    if time is None or other is None or time.t_branch is None or other.t_d is None or not other.t_v:
        return hidden
    ceiling = roofline.ssd_ceiling(other.draft_len, other.t_d, other.t_v, time.t_branch)
    rest = ms((ssd.other_ms or 0.0) * NS_PER_MS)
    return f"{hidden}, ceiling {ceiling:.2f}×; still exposed {ms(exposed)}, other {rest}"


def _ms_per_token(row: Standing) -> Formula:
    turn = row.turn
    per_token = turn.ms_per_token
    return Formula(
        name=f"{row.letter} {row.label}",
        expression="lane clock ÷ decoded tokens",
        values=f"{ms(turn.decode_ns)} ms ÷ {turn.decoded_tokens:,}",
        result="n/a" if per_token is None else f"{per_token:.2f} ms/token",
    )
