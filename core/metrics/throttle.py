"""Whether a device's clock is held down, and whether the target reads more slowly because of it."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from specmon.core.events import Round, Telemetry
from specmon.core.metrics.acceptance import ratio
from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.spans import verify_ns
from specmon.core.metrics.turn import TurnMetrics

#: Clocks that somebody chose; they hold a device down, but not because it is too hot or too hungry.
CHOSEN = frozenset({"application clocks", "sync boost", "display clocks"})
LOOK_BACK = 1_024  # rounds searched for an unhindered stretch to compare with
HELD_SHARE = 0.5  # of the samples during the judged rounds
LOW_CLOCK = 0.90  # SM clock ÷ full, from which a sample counts as held without a reason
CLOCK_FALL = 0.95  # SM clock ÷ full that confirms a reason where no earlier rounds can
RATE_FALL = 0.95  # bytes/s ÷ those before
LEAST_ROUNDS = 8  # on either side of the comparison


@dataclass(frozen=True, kw_only=True)
class Throttled:
    """A held device: its clock beside its full one, why, in what share of the samples.

    `rate_share` is the target's bytes/s while held ÷ before, `saved_ns` what a round would save at the rate
    before; None where no unhindered rounds were seen.
    """

    device: str
    clock_mhz: int
    full_clock_mhz: int
    reasons: tuple[str, ...]
    share: float
    rate_share: float | None
    saved_ns: float | None


def throttled(lane: LaneMetrics, turn: TurnMetrics, last: int) -> Throttled | None:
    """The target's device, if it was held down during the turn's last rounds and its reading fell."""
    if not turn.lane.devices:
        return None
    device = turn.lane.devices[0]
    samples = list(lane.telemetry_history.get(device, ()))
    clocks = [s.sm_clock_mhz for s in samples if s.sm_clock_mhz is not None]
    if not clocks:
        return None
    info = turn.devices[0] if turn.devices else None
    full = max([*clocks, *([info.sm_clock_mhz] if info is not None and info.sm_clock_mhz else [])])
    judged = turn.rounds[-last:]
    during = [s for s in samples if judged[0].t0 <= s.t <= judged[-1].t1]
    held = [s for s in during if _is_held(s, full)]
    held_clocks = [s.sm_clock_mhz for s in held if s.sm_clock_mhz is not None]
    if not held_clocks or len(held) < HELD_SHARE * len(during):
        return None
    clock = round(statistics.median(held_clocks))
    rate_share, held_ns = _rate_share(turn, judged, samples, full) or (None, 0.0)
    reasons = tuple(dict.fromkeys(reason for sample in held for reason in _reasons(sample)))
    confirmed = (
        rate_share <= RATE_FALL if rate_share is not None else bool(reasons) and clock <= CLOCK_FALL * full
    )
    if not confirmed:
        return None
    return Throttled(
        device=device,
        clock_mhz=clock,
        full_clock_mhz=full,
        reasons=reasons,
        share=len(held) / len(during),
        rate_share=rate_share,
        saved_ns=None if rate_share is None else held_ns * (1 - rate_share),
    )


def _reasons(sample: Telemetry) -> tuple[str, ...]:
    return tuple(reason for reason in sample.throttle or () if reason not in CHOSEN)


def _is_held(sample: Telemetry, full_clock: int) -> bool:
    low = sample.sm_clock_mhz is not None and sample.sm_clock_mhz <= LOW_CLOCK * full_clock
    return bool(_reasons(sample)) or low


def _rate_share(
    turn: TurnMetrics, judged: Sequence[Round], samples: Sequence[Telemetry], full_clock: int
) -> tuple[float, float] | None:
    """The target's bytes/s in held rounds among the judged ÷ in the free rounds of the turn, and their verification.

    That is in ns a judged round.
    """
    times = [sample.t for sample in samples]

    def is_held(round_: Round) -> bool:
        return _is_held(samples[min(bisect_left(times, round_.t1), len(samples) - 1)], full_clock)

    held = [r for r in judged if is_held(r)]
    free = [r for r in turn.rounds[-LOOK_BACK:] if not is_held(r)]
    if len(held) < LEAST_ROUNDS or len(free) < LEAST_ROUNDS:
        return None
    now, before = _read_rate(held), _read_rate(free)
    if now is None or not before:
        return None
    return now / before, sum(map(verify_ns, held)) / len(judged)


def _read_rate(rounds: Sequence[Round]) -> float | None:
    """Bytes the target's device read ÷ time it verified."""
    n_bytes = sum(b.weights + b.kv for r in rounds for b in r.bytes if b.device == 0)
    return ratio(n_bytes, sum(map(verify_ns, rounds)))
