"""Bytes against ceilings: how fast each device read, and how far that is from the speed of light.

Analytic figures divide counted bytes by measured time; the counter of the GPU (GPM) stands beside them, never
mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specmon.core import roofline
from specmon.core.events import DeviceInfo, Telemetry
from specmon.core.metrics.acceptance import ratio
from specmon.core.metrics.turn import NS_PER_MS, NS_PER_S, TurnMetrics
from specmon.core.metrics.turn_time import TurnTime, turn_time

ANALYTIC = "analytic"
GPM = "GPM 200 ms"
CACHE_RESIDENT = "cache-resident"
NO_CEILING = "no ceiling measured"


@dataclass(frozen=True, kw_only=True)
class DeviceBandwidth:
    """What one device read over some rounds. Rates in bytes/s, fractions 0..1 of its measured read ceiling.

    `no_fraction` says why there are no fractions. `shares_ceiling`: CPU devices draw on one DRAM.
    `gpm_fraction` is of the memory's peak, over the counter's own window and the whole GPU; `gpm_note` says
    why it is missing.
    """

    device: str
    n_bytes: int
    whole_ns: int
    busy_ns: int
    ceiling: float | None
    no_fraction: str | None
    shares_ceiling: bool
    gpm_fraction: float | None
    gpm_note: str | None

    @property
    def whole(self) -> float | None:
        """Bytes ÷ whole round time."""
        return ratio(self.n_bytes * NS_PER_S, self.whole_ns)

    @property
    def busy(self) -> float | None:
        """Bytes ÷ the time in which the device was busy."""
        return ratio(self.n_bytes * NS_PER_S, self.busy_ns)

    @property
    def whole_fraction(self) -> float | None:
        """`whole` ÷ ceiling."""
        return self._fraction(self.whole)

    @property
    def busy_fraction(self) -> float | None:
        """`busy` ÷ ceiling."""
        return self._fraction(self.busy)

    def _fraction(self, rate: float | None) -> float | None:
        if rate is None or self.ceiling is None or self.no_fraction is not None:
            return None
        return rate / self.ceiling


def device_bandwidths(
    turn: TurnMetrics, telemetry: Mapping[str, Telemetry], last: int = 64
) -> list[DeviceBandwidth]:
    """Bandwidth of each of the lane's devices over the turn's last rounds, the target's device first."""
    first = max(0, turn.n_rounds - last)
    time = turn_time(turn.rounds, len(turn.lane.devices), first)
    return _bandwidths(turn, telemetry, time)


def turn_bandwidths(turn: TurnMetrics, telemetry: Mapping[str, Telemetry]) -> list[DeviceBandwidth]:
    """Bandwidth of each of the lane's devices over all of the turn's rounds."""
    return _bandwidths(turn, telemetry, turn.time())


def _bandwidths(
    turn: TurnMetrics, telemetry: Mapping[str, Telemetry], time: TurnTime
) -> list[DeviceBandwidth]:
    return [
        _device_bandwidth(turn, index, time, telemetry.get(name))
        for index, name in enumerate(turn.lane.devices)
    ]


def _device_bandwidth(
    turn: TurnMetrics, index: int, time: TurnTime, sample: Telemetry | None
) -> DeviceBandwidth:
    name = turn.lane.devices[index]
    info = _device(turn, index)
    gpm = None if sample is None else sample.dram_fraction
    return DeviceBandwidth(
        device=name,
        n_bytes=time.n_bytes[index],
        whole_ns=time.shares.total_ns,
        busy_ns=time.busy_ns[index],
        ceiling=None if info is None else info.read_ceiling,
        no_fraction=no_fraction(turn, index),
        shares_ceiling=is_cpu(name) and sum(map(is_cpu, turn.lane.devices)) > 1,
        gpm_fraction=gpm,
        gpm_note=None if gpm is not None else _gpm_note(name, sample),
    )


def is_cpu(device: str) -> bool:
    """Whether a device name means CPU cores."""
    return device.startswith("cpu")


def _gpm_note(device: str, sample: Telemetry | None) -> str:
    if sample is not None and sample.note:
        return sample.note
    return "no such counter on a CPU" if is_cpu(device) else "no sample yet"


def no_fraction(turn: TurnMetrics, index: int) -> str | None:
    """Why a device of the turn has no % of its ceiling; None where it has one."""
    info = _device(turn, index)
    if info is None or not info.read_ceiling:
        return NO_CEILING
    resident = _resident_bytes(turn, index)
    if info.llc_bytes is not None and resident is not None and resident <= info.llc_bytes:
        return CACHE_RESIDENT
    return None


def _device(turn: TurnMetrics, index: int) -> DeviceInfo | None:
    return turn.devices[index] if index < len(turn.devices) else None


def _resident_bytes(turn: TurnMetrics, index: int) -> int | None:
    """Weights + KV that share the device's last-level cache; CPU devices share one."""
    lane = turn.lane
    kv_len = turn.turn.prompt_tokens + turn.n_tokens
    alone = len(lane.devices) > 1 and not is_cpu(lane.devices[index])
    of_target = index < lane.n_target_devices
    target = roofline.target_bytes(lane, kv_len) if of_target or not alone else 0
    has_draft = lane.drafter is not None and not (alone and of_target)
    draft = (roofline.draft_bytes(lane, kv_len) or 0) if has_draft else 0
    return None if target is None else target + draft


def target_round_bytes(turn: TurnMetrics, position: int) -> int | None:
    """Bytes the target must read in the round at `position`: counted where it has a device of its own.

    Where the draft shares its device the lane's sizes are used: weights + KV of the positions before the
    round.
    """
    round_ = turn.rounds[position]
    if len(turn.lane.devices) > 1 or turn.lane.decoder == "ar":
        counted = sum(b.weights + b.kv for b in round_.bytes if b.device == 0)
        if counted:
            return counted
    tokens_before = turn.tokens_by_round[position] - len(round_.emitted)
    return roofline.target_bytes(turn.lane, turn.turn.prompt_tokens + max(0, tokens_before - 1))


def target_floor_ns(turn: TurnMetrics, first: int, last: int) -> float | None:
    """Least time (ns) the target needs to read its bytes in rounds `first` to `last` (positions, inclusive).

    Returns: None without a ceiling, without known sizes, or where everything fits the last-level cache.
    """
    info = _device(turn, 0)
    if info is None or not info.read_ceiling or no_fraction(turn, 0) is not None:
        return None
    total = 0
    for position in range(first, last + 1):
        n_bytes = target_round_bytes(turn, position)
        if n_bytes is None:
            return None
        total += n_bytes
    return roofline.floor_ns(total, info.read_ceiling)


def floor_ms_per_token(turn: TurnMetrics, last: int = 64) -> float | None:
    """The target's floor over the last rounds ÷ the tokens they emitted: what ms/token cannot go below."""
    first = max(0, turn.n_rounds - last)
    floor = target_floor_ns(turn, first, turn.n_rounds - 1)
    tokens = sum(len(r.emitted) for r in turn.rounds[first:])
    return None if floor is None else ratio(floor, NS_PER_MS * tokens)


def sol_fraction(turn: TurnMetrics, last: int | None = None) -> float | None:
    """(Bytes the target must read ÷ read ceiling) ÷ round time, over the last rounds or the whole turn."""
    first = 0 if last is None else max(0, turn.n_rounds - last)
    floor = target_floor_ns(turn, first, turn.n_rounds - 1)
    return None if floor is None else ratio(floor, sum(r.t1 - r.t0 for r in turn.rounds[first:]))
