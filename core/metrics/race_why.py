"""Why the fastest lane of a race is ahead of the next, in one sentence with its figures."""

from __future__ import annotations

from specmon.core import roofline
from specmon.core.metrics.formulas import Formula
from specmon.core.metrics.race import Race, Standing, compare_lanes
from specmon.core.metrics.round_time import RoundTime, round_time
from specmon.core.metrics.text import ms
from specmon.core.metrics.why import MIN_ROUNDS, SHORT_COLUMNS, Why

LAST = 64


def race_why(race: Race) -> Why:
    """Compare the two lanes with the least ms/token, by their last rounds."""
    lanes = [row for row in race.standings if not row.failed and _judged(row)]
    if len(lanes) < 2:
        text = f"waiting for two lanes to decode {MIN_ROUNDS} rounds"
        return Why(text=text, short=text, formulas=[])
    first, second = sorted(lanes, key=lambda row: row.turn.ms_per_token or float("inf"))[:2]
    times = round_time(first.turn, LAST), round_time(second.turn, LAST)
    assert times[0] is not None  # both have rounds
    assert times[1] is not None
    lead = _lead(first, second)
    cause = _cause(first, second, times[0], times[1])
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


def _cause(first: Standing, second: Standing, time: RoundTime, other: RoundTime) -> str:
    decoders = first.turn.lane.decoder, second.turn.lane.decoder
    if decoders == ("ssd", "sd"):
        return _hidden_drafting(second.letter, time, other)
    if decoders[0] == "ar":
        needed = roofline.break_even_tau(other.round_ns, time.round_ns)
        return f"{second.letter} needs τ {needed:.2f} to break even and has {other.tokens_per_round:.2f}"
    rounds = [f"τ {t.tokens_per_round:.2f} in rounds of {ms(t.round_ns)} ms" for t in (time, other)]
    return f"{rounds[0]} against {rounds[1]}"


def _hidden_drafting(sd: str, time: RoundTime, other: RoundTime) -> str:
    hidden = f"{ms(other.draft_ns - time.draft_ns)} of {sd}'s {ms(other.draft_ns)} ms of drafting is hidden"
    if time.t_branch is None or other.t_d is None or not other.t_v:
        return hidden
    ceiling = roofline.ssd_ceiling(other.draft_len, other.t_d, other.t_v, time.t_branch)
    return f"{hidden}, ceiling {ceiling:.2f}×; still exposed {ms(time.draft_ns)}, other {ms(time.other_ns)}"


def _ms_per_token(row: Standing) -> Formula:
    turn = row.turn
    per_token = turn.ms_per_token
    return Formula(
        name=f"{row.letter} {row.label}",
        expression="lane clock ÷ decoded tokens",
        values=f"{ms(turn.decode_ns)} ms ÷ {turn.decoded_tokens:,}",
        result="n/a" if per_token is None else f"{per_token:.2f} ms/token",
    )
