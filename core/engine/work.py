"""What the engine does: load lanes, decode, race, measure. Imports torch when the first lane is loaded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from specmon.core.engine.failures import sentence
from specmon.core.engine.header import build_header
from specmon.core.engine.messages import (
    ArMeasured,
    Generate,
    LaneConfig,
    Load,
    MeasureAr,
    Notice,
    Progress,
    Race,
    Ready,
)
from specmon.core.engine.stream import OpenTurns, Stream
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import ArStep, Event, Turn
from specmon.core.garbage import set_aside
from specmon.core.hardware import Machine, ResolvedDevices, survey
from specmon.core.paths import cache_dir
from specmon.core.telemetry import TelemetryThread

if TYPE_CHECKING:
    from specmon.core.decoders.lane import DecodeLane
    from specmon.core.models.pool import ModelPool

_PROGRESS_PERIOD_S = 0.05


class Work:
    """The lanes of one engine. All methods belong to the main thread.

    Args:
        stream: where events go, and the clock.
        notify: where notices go.
        pin: bind the main thread to its core when it decodes on a CPU.
    """

    def __init__(self, *, stream: Stream, notify: Callable[[Notice], None], pin: bool) -> None:
        self._stream = stream
        self._notify = notify
        self._pin = pin
        self._lanes: dict[int, DecodeLane] = {}
        self._pool: ModelPool | None = None
        self._machine: Machine | None = None
        self._gpu_uuids: tuple[str, ...] = ()
        self._telemetry: TelemetryThread | None = None
        self._ceilings: dict[str, float] = {}
        self._ceiling_source = ""
        self.turns = 0  # begun so far
        self._progress_shown = ("", 0.0)

    def load(self, command: Load) -> None:
        """Make a lane ready; the first one begins the stream. The lane it replaces stays if this fails."""
        self._progress_shown = ("", 0.0)
        machine = self._machine or self._survey()
        devices = self._settle(command.config, machine)
        self._prepare(devices.names, machine)
        config = msgspec.structs.replace(command.config, devices=",".join(devices.names))
        lane = self._new_lane(config, machine)
        if not self._stream.begun:
            self._begin(devices.names, machine, lane.hashes)
        self._replace(command.lane, lane)
        set_aside()
        self._stream.emit(lane.describe(command.lane, self._stream.clock()))
        notes = (*devices.notes, *_sharing_note(config), *lane.notes)
        self._notify(Ready(lane=command.lane, notes=notes))

    def generate(self, command: Generate, cancelled: Callable[[], bool]) -> None:
        """Decode one turn on one lane."""
        lane = self._lane(command.lane)
        self._run(lane.generate(command.request, lane=command.lane, turn=self.turns, cancelled=cancelled))

    def race(self, command: Race, cancelled: Callable[[], bool]) -> None:
        """Decode one request on every lane."""
        if not self._lanes:
            raise UsageError("No lane is loaded.", "Load two or more before a race.")
        from specmon.core.decoders.race import race

        lanes = [self._lanes[index] for index in sorted(self._lanes)]
        self._run(race(lanes, command.request, turn=self.turns, cancelled=cancelled))

    def measure_ar(self, command: MeasureAr) -> None:
        """Time AR steps at the lane's present KV length; the stream keeps the result, for whoever replays it."""
        if command.steps < 1:
            raise UsageError(f"{command.steps} steps cannot be timed.", "Ask for at least one.")
        kv_len, step_ns = self._lane(command.lane).measure_ar(command.steps)
        self._stream.emit(
            ArStep(t=self._stream.clock(), lane=command.lane, kv_len=kv_len, steps=command.steps, ns=step_ns)
        )
        self._notify(ArMeasured(lane=command.lane, steps=command.steps, kv_len=kv_len, step_ns=step_ns))

    def close(self) -> None:
        """Give up every lane and thread."""
        if self._telemetry is not None:
            self._telemetry.stop()
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    def _replace(self, index: int, lane: DecodeLane) -> None:
        """In a frame of its own: once it is over nothing holds the lane before, and its memory can be freed."""
        replaced = self._lanes.get(index)
        self._lanes[index] = lane
        if replaced is not None:
            replaced.close()

    def _run(self, events: Iterable[Event]) -> None:
        """Emit a generator's events; a turn it leaves open when it fails is ended as an error."""
        turns = OpenTurns()
        try:
            for event in events:
                self._stream.emit(event)
                turns.see(event)
                if isinstance(event, Turn):
                    self.turns = event.turn + 1
        except BaseException as error:
            for end in turns.fail(sentence(error), clock=self._stream.clock):
                self._stream.emit(end)
            raise

    def _lane(self, index: int) -> DecodeLane:
        if index not in self._lanes:
            raise UsageError(f"Lane {index} is not loaded.", "Load it before it decodes.")
        return self._lanes[index]

    def _progress(self, what: str, fraction: float | None) -> None:
        now = time.monotonic()
        shown_what, shown_at = self._progress_shown
        if what != shown_what or fraction == 1.0 or now - shown_at >= _PROGRESS_PERIOD_S:
            self._progress_shown = (what, now)
            self._notify(Progress(what=what, fraction=fraction))

    def _survey(self) -> Machine:
        self._progress("loading torch", None)
        try:
            from specmon.core.ceilings import cuda_uuids
        except ModuleNotFoundError as error:
            raise SpecmonError(
                f"Decoding needs {error.name}, which is not installed.",
                "Install it with: pip install 'specmon[engine]'",
            ) from error
        self._gpu_uuids = cuda_uuids()
        self._machine = survey(self._gpu_uuids)
        return self._machine

    def _settle(self, config: LaneConfig, machine: Machine) -> ResolvedDevices:
        """The devices of a lane that can work here; what cannot is refused before anything is measured or loaded."""
        from specmon.core.decoders.settle import settle

        return settle(config, machine, cache_dir()).devices

    def _prepare(self, names: tuple[str, ...], machine: Machine) -> None:
        """Measure read ceilings while nothing else runs; on CPU, take one thread and the target's core."""
        import torch

        from specmon.core.ceilings import measure_ceilings

        if not self._stream.begun and not self._ceilings.keys() >= set(names):
            self._progress("measuring memory read speed", None)
            self._ceilings, self._ceiling_source = measure_ceilings(names, machine)
        if names[0].startswith("cpu:"):
            torch.set_num_threads(1)
            if self._pin and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, {machine.core_of[names[0]]})

    def _new_lane(self, config: LaneConfig, machine: Machine) -> DecodeLane:
        from specmon.core.decoders.lane import DecodeLane
        from specmon.core.models.pool import ModelPool

        self._pool = self._pool or ModelPool()
        return DecodeLane(
            config,
            pool=self._pool,
            progress=self._progress,
            clock=self._stream.clock,
            cores=machine.core_of,
        )

    def _begin(self, names: tuple[str, ...], machine: Machine, hashes: dict[str, str]) -> None:
        """Emit the `Header` and start the counters."""
        from specmon.core.ceilings import cache_bytes

        devices = tuple(
            msgspec.structs.replace(
                machine.devices[name],
                read_ceiling=self._ceilings[name],
                llc_bytes=cache_bytes(name, machine),
            )
            for name in names
        )
        self._stream.emit(
            build_header(
                devices=devices,
                gpu_uuids=self._gpu_uuids,
                ceiling_source=self._ceiling_source,
                hashes=hashes,
                utc_start=self._stream.utc_start,
            )
        )
        self._telemetry = TelemetryThread(
            names, emit=self._stream.emit, clock=self._stream.clock, gpu_uuids=self._gpu_uuids
        )
        self._telemetry.start()


def _sharing_note(config: LaneConfig) -> tuple[str, ...]:
    if config.decoder == "ar" or "," in config.devices:
        return ()
    return (f"Target and draft share {config.devices}.",)
