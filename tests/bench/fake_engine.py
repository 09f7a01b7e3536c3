"""Stands in for the engine of the benchmark commands: every turn is made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from specmon.core.checks.subject import Kind
from specmon.core.decoders.settle import Settled
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import DeviceInfo, Header
from specmon.core.hardware import ResolvedDevices
from specmon.core.metrics.turn import TurnMetrics

HEADER = Header(
    t=0,
    devices=(DeviceInfo(name="cpu:0", model="a CPU", read_ceiling=1e10),),
    versions={"torch": "2.13"},
    ceiling_source="scripted",
)


def settled_on(*models: str, recipe: str = "bf16") -> Callable[[Sequence[LaneConfig]], list[Settled]]:
    """Settles lanes as a machine would whose devices are `models`."""

    def settle(configs: Sequence[LaneConfig]) -> list[Settled]:
        names = tuple(f"cuda:{n}" for n in range(len(models)))
        return [
            Settled(
                config=config,
                devices=ResolvedDevices(names=names),
                models=models,
                recipe=recipe,
                context_length=2048,
            )
            for config in configs
        ]

    return settle


def agreement_of_ar(settled: Sequence[Settled]) -> list[tuple[Kind, ...]]:
    """The checks passed of each lane: agreement, for AR alone."""
    return [("agreement",) if lane.config.decoder == "ar" else () for lane in settled]


class FakeEngine:
    """Stands in for the engine: `script` gives each turn, by lane's config and prompt."""

    header = HEADER
    script: ClassVar[Callable[[LaneConfig, str, int], TurnMetrics]]
    loaded: ClassVar[list[tuple[int, LaneConfig]]]

    def __init__(self, say: Callable[[str], None], *, debug: bool) -> None:
        self._lanes: dict[int, LaneConfig] = {}
        self._n = 0

    def load(self, lane: int, config: LaneConfig) -> None:
        self._lanes[lane] = config
        self.loaded.append((lane, config))

    def decode(self, lane: int, request: Request) -> TurnMetrics:
        self._n += 1
        config = self._lanes[lane]
        if request.draft_len is not None:
            config = msgspec.structs.replace(config, draft_len=request.draft_len)
        return type(self).script(config, request.messages[0][1], self._n)

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass
