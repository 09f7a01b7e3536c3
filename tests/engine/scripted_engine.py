"""The real engine process around scripted lanes: what a lane does is the text of the request.

"rounds N": N rounds of two tokens. "forever": rounds of 0.5 ms until cancelled. "fail N": N rounds, then a KeyError.
"refuse": a SpecmonError before the turn starts. "garbage": one that says how many lanes live, and how many objects are
left out of garbage collections. "memory": a MemoryError. "kill N": N rounds, then SIGKILL.
A target called "missing" does not exist; one called "endless" never loads.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.errors import SpecmonError
from specmon.core.events import Event, Lane, Prefill, Round, Turn, TurnEnd
from specmon.core.hardware import Machine, resolve_devices


class ScriptedLane:
    """Looks like a DecodeLane, and holds itself, as one with graphs may."""

    notes = ("scripted",)
    alive: ClassVar[weakref.WeakSet[ScriptedLane]] = weakref.WeakSet()

    def __init__(
        self,
        config: LaneConfig,
        *,
        pool: object,
        progress: Callable[[str, float | None], None],
        clock: Callable[[], int],
        cores: dict[str, int],
    ) -> None:
        assert cores.keys() >= set(config.devices.split(","))
        if config.target == "missing":
            raise SpecmonError("There is no model at missing.", "Name a folder.", exit_code=2)
        progress("reading weights", 0.5)
        if config.target == "endless":
            threading.Event().wait()
        self.hashes = {"target": "0123456789abcdef"}
        self.config = config
        self.clock = clock
        self.itself = self
        self.alive.add(self)

    def describe(self, lane: int, t: int) -> Lane:
        return Lane(
            t=t,
            lane=lane,
            decoder=self.config.decoder,
            target=self.config.target,
            devices=tuple(self.config.devices.split(",")),
        )

    def forget(self) -> None:
        pass

    def generate(
        self, request: Request, *, lane: int, turn: int, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        what, _, number = request.messages[-1][1].partition(" ")
        limit = int(number) if number else sys.maxsize
        if what == "refuse":
            raise SpecmonError("The prompt is longer than the context.", exit_code=2)
        if what == "garbage":
            raise SpecmonError(f"{len(self.alive)} alive, {gc.get_freeze_count()} set aside.")
        where: dict[str, Any] = {"lane": lane, "turn": turn}
        t0 = self.clock()
        yield Turn(t=t0, prompt=what, prompt_tokens=1, **where)
        yield Prefill(t=t0, t0=t0, chunks=(), token_one=1, text="a", **where)
        index = 0
        while index < limit and not cancelled():
            yield Round(
                t=t0 + index + 1,
                index=index,
                t0=t0 + index,
                t1=t0 + index + 1,
                requested_k=1,
                drafter="scripted",
                draft=(2,),
                accepted_len=1,
                bonus=3,
                emitted=(2, 3),
                text=("b", "c"),
                **where,
            )
            index += 1
            if what == "forever":
                time.sleep(0.0005)
        if what == "fail":
            raise KeyError("weights")
        if what == "memory":
            raise MemoryError
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        reason = "cancelled" if cancelled() else "length"
        yield TurnEnd(t=t0 + index, stop_reason=reason, n_tokens=1 + 2 * index, rounds=index, **where)

    def measure_ar(self, steps: int) -> tuple[int, int]:
        return 7, steps

    def close(self) -> None: ...


def race(
    lanes: list[ScriptedLane], request: Request, *, turn: int, cancelled: Callable[[], bool]
) -> Iterator[Event]:
    for index, lane in enumerate(lanes):
        yield from lane.generate(request, lane=index, turn=turn, cancelled=cancelled)


def settle(config: LaneConfig, machine: Machine, cache_dir: Path) -> types.SimpleNamespace:
    return types.SimpleNamespace(devices=resolve_devices(config.devices, machine))


def _module(name: str, **contents: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


_module("torch", set_num_threads=lambda n: None)
_module("specmon.core.decoders.lane", DecodeLane=ScriptedLane)
_module("specmon.core.decoders.race", race=race)
_module("specmon.core.decoders.settle", settle=settle)
_module("specmon.core.models.pool", ModelPool=object)
_module(
    "specmon.core.ceilings",
    cache_bytes=lambda name, machine: 1 << 20,
    cuda_uuids=lambda: (),
    measure_ceilings=lambda names, machine: (dict.fromkeys(names, 1e10), "scripted"),
)

if __name__ == "__main__":
    from specmon.core.engine.__main__ import main

    main()
