"""An engine for benchmarks: loads lanes and decodes requests, with every figure from its own events."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, cast

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import Generate, Load
from specmon.core.errors import SpecmonError
from specmon.core.metrics.ledger import Ledger
from specmon.tui.commands.headless import Headless

if TYPE_CHECKING:
    from collections.abc import Callable

    from specmon.core.bench.report import DeviceCeilings
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.core.events import AnyEvent, Event, Header
    from specmon.core.metrics.turn import TurnMetrics


class BenchEngine:
    """One engine, in a `with`; what it says goes to `say`."""

    def __init__(self, say: Callable[[str], None], *, debug: bool) -> None:
        self._ledger = Ledger()
        self._engine = Headless(EngineClient.start(debug=debug), self._feed, say)

    @property
    def header(self) -> Header | None:
        """What the engine found itself on; None before the first lane is loaded."""
        return self._ledger.header

    def load(self, lane: int, config: LaneConfig) -> None:
        """Make a lane ready. Raises: SpecmonError if it cannot be."""
        self._engine.do(Load(lane=lane, config=config))

    def decode(self, lane: int, request: Request) -> TurnMetrics:
        """Decode one request.

        Raises: SpecmonError if it fails; KeyboardInterrupt on ctrl+c, once the engine has stopped.
        """
        self._engine.do(Generate(lane=lane, request=request))
        turn = self._ledger.lanes[lane].turns[-1]
        if turn.end is None or turn.end.stop_reason == "error":
            raise SpecmonError((turn.end and turn.end.error) or "A request did not finish.")
        return turn

    def __enter__(self) -> BenchEngine:
        self._engine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.__exit__(kind, error, trace)

    def _feed(self, event: Event) -> None:
        self._ledger.feed(cast("AnyEvent", event))


def device_ceilings(header: Header) -> tuple[DeviceCeilings, ...]:
    """Each device's read ceiling as the engine measured it at the start, and its copy ceiling, measured now."""
    from specmon.core.bench.report import DeviceCeilings
    from specmon.core.ceilings import cuda_uuids, measure_copies
    from specmon.core.hardware import survey

    names = tuple(device.name for device in header.devices)
    copies = measure_copies(names, survey(cuda_uuids()))
    return tuple(
        DeviceCeilings(name=d.name, model=d.model, read=d.read_ceiling, copy=copies[d.name])
        for d in header.devices
    )
