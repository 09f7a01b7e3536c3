"""Where a whole turn's time went, kept up as it goes on: each round is looked at once, however long the turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from specmon.core.events import Round
from specmon.core.metrics.spans import Shares, busy_ns, shares


@dataclass(frozen=True, kw_only=True)
class TurnTime:
    """Sums over rounds. Time in ns; `busy_ns` and `n_bytes` (weights and KV read) hold one entry a device.

    `drain_ns`: what devices still worked for the lane after a round that the next did not follow at once.
    """

    shares: Shares
    busy_ns: tuple[int, ...]
    n_bytes: tuple[int, ...]
    drain_ns: int

    def __add__(self, other: TurnTime) -> TurnTime:
        return TurnTime(
            shares=Shares(*(a + b for a, b in zip(astuple(self.shares), astuple(other.shares), strict=True))),
            busy_ns=tuple(a + b for a, b in zip(self.busy_ns, other.busy_ns, strict=True)),
            n_bytes=tuple(a + b for a, b in zip(self.n_bytes, other.n_bytes, strict=True)),
            drain_ns=self.drain_ns + other.drain_ns,
        )


def turn_time(rounds: Sequence[Round], n_devices: int, first: int = 0, end: int | None = None) -> TurnTime:
    """Sums over the rounds at positions `first` to `end` (not included), spans of their neighbours considered."""
    end = len(rounds) if end is None else end
    chosen = rounds[first:end]
    near = rounds[max(0, first - 1) : end + 1]
    return TurnTime(
        shares=shares(chosen, near),
        busy_ns=tuple(busy_ns(chosen, device, near) for device in range(n_devices)),
        n_bytes=tuple(
            sum(b.weights + b.kv for r in chosen for b in r.bytes if b.device == device)
            for device in range(n_devices)
        ),
        drain_ns=sum(_drain_ns(rounds, position) for position in range(first, end)),
    )


class TurnTimeSum:
    """Adds up rounds. A round is settled once its successor is known, for that may hold spans reaching back."""

    def __init__(self, n_devices: int) -> None:
        self._n_devices = n_devices
        self._n_settled = 0
        self._settled = turn_time((), n_devices)

    def of(self, rounds: Sequence[Round]) -> TurnTime:
        """The sums over `rounds`, which hold those of the last call and more."""
        settle = max(self._n_settled, len(rounds) - 1)
        self._settled += turn_time(rounds, self._n_devices, self._n_settled, settle)
        self._n_settled = settle
        return self._settled + turn_time(rounds, self._n_devices, settle)


def _drain_ns(rounds: Sequence[Round], position: int) -> int:
    round_ = rounds[position]
    if position + 1 < len(rounds) and rounds[position + 1].t0 <= round_.t1:
        return 0
    ends = (span.end for span in round_.spans if span.kind != "wait")
    return max(0, max(ends, default=round_.t1) - round_.t1)
