"""The real engine process around a lane that floods: "flood RATE SECONDS ROUNDS" emits RATE events a second in turns of
ROUNDS rounds. Everything behind the lane is the product's: stream, recorder, outbox, socket.

A turn's last event is held back until it is due, so the rate is kept or, on a machine too slow for it, fallen short of
and reported.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import Event, Lane, Prefill, PrefillChunk, Round, Span, Turn, TurnEnd
from specmon.core.hardware import Machine, resolve_devices

K = 4
WORDS = (
    " the", " merge", "(a", ", b", "):", "\n", "    out", " =", " []", " while", " i", " <", " len", "(a):", " and",
)  # fmt: skip
PATTERN = (2, 4, 0, 3, 2, 1, 4, 2)  #: accepted_len of the rounds, over and over
SLICE_S = 0.005


class FloodLane:
    """Looks like a DecodeLane."""

    notes = ("synthetic rounds",)
    hashes: dict[str, str] = {}  # noqa: RUF012 (what the engine expects of a lane)

    def __init__(self, config: LaneConfig, *, clock: Callable[[], int], **_: object) -> None:
        self.config = config
        self.clock = clock

    def describe(self, lane: int, t: int) -> Lane:
        return Lane(
            t=t,
            lane=lane,
            decoder="sd",
            target="synthetic",
            drafter="synthetic",
            drafter_kind="draft_model",
            recipe="bf16",
            backend="none",
            devices=tuple(self.config.devices.split(",")),
            target_weight_bytes=14_000_000,
            draft_weight_bytes=900_000,
            kv_bytes_per_token=57,
            context_length=1 << 20,
        )

    def generate(
        self, request: Request, *, lane: int, turn: int, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        rate, seconds, rounds = (float(word) for word in request.messages[-1][1].split()[1:])
        began, made = time.monotonic(), 0
        while time.monotonic() - began < seconds and not cancelled():
            for event in self._turn(turn, int(rounds)):
                made += 1
                yield event
                if made % max(int(rate * SLICE_S), 1) == 0:
                    time.sleep(max(began + made / rate - time.monotonic(), 0))
            turn += 1

    def _turn(self, turn: int, rounds: int) -> Iterator[Event]:
        t = self.clock()
        yield Turn(t=t, turn=turn, prompt="Flood.", prompt_tokens=84, draft_len=K, max_new_tokens=1 << 20)
        yield Prefill(
            t=t + 1, turn=turn, t0=t, chunks=(PrefillChunk(0, 84, t, t + 1),), token_one=7, text="Go"
        )
        t, kv, tokens = t + 1, 85, 1
        for index in range(rounds):
            accepted = PATTERN[index % len(PATTERN)]
            t1 = max(self.clock(), t + 1000)
            kv += accepted + 1
            tokens += accepted + 1
            yield Round(
                t=t1,
                turn=turn,
                index=index,
                t0=t,
                t1=t1,
                requested_k=K,
                drafter="draft_model",
                draft=(11, 12, 13, 14),
                draft_probs=(0.9, 0.8, 0.7, 0.6),
                accepted_len=accepted,
                bonus=15,
                emitted=(*(11, 12, 13, 14)[:accepted], 15),
                text=tuple(WORDS[(index + i) % len(WORDS)] for i in range(accepted + 1)),
                margin=1.5,
                kv_len=(kv, kv),
                spans=(
                    Span(0, "main", "draft", t, t + 300, index),
                    Span(0, "main", "verify", t + 300, t1 - 100, index),
                    Span(0, "main", "accept", t1 - 100, t1, index),
                ),
                host_launches=3,
            )
            t = t1
        yield TurnEnd(t=t, turn=turn, stop_reason="length", n_tokens=tokens, rounds=rounds)

    def measure_ar(self, steps: int) -> tuple[int, int]:
        return 84, steps

    def close(self) -> None: ...


def settle(config: LaneConfig, machine: Machine, cache_dir: Path) -> types.SimpleNamespace:
    return types.SimpleNamespace(devices=resolve_devices(config.devices, machine))


def _module(name: str, **contents: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


_module("torch", set_num_threads=lambda n: None)
_module("specmon.core.decoders.lane", DecodeLane=FloodLane)
_module("specmon.core.decoders.race", race=None)
_module("specmon.core.decoders.settle", settle=settle)
_module("specmon.core.models.pool", ModelPool=object)
_module(
    "specmon.core.ceilings",
    cache_bytes=lambda name, machine: 1 << 20,
    cuda_uuids=lambda: (),
    measure_ceilings=lambda names, machine: (dict.fromkeys(names, 1e10), "none, synthetic"),
)

if __name__ == "__main__":
    from specmon.core.engine.__main__ import main

    main()
