"""A race: lanes decode the same request in turns on one machine, each on a clock of its own.

A lane's clock is the sum of its rounds. The lane whose clock is behind goes next, for at least 8 rounds and 50 ms; what it
leaves running at the end of its turn is waited for and counted to it, so that nothing works on while another lane runs.
Every lane starts cold: one that reuses the race before and one that lost it have different histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from specmon.core.decoders.lane import DecodeLane
from specmon.core.engine.messages import Request
from specmon.core.engine.stream import OpenTurns
from specmon.core.errors import SpecmonError
from specmon.core.events import Event, Prefill, Round, TurnEnd

MIN_ROUNDS = 8
MIN_NS = 50_000_000


@dataclass
class _Racer:
    """One lane in the race: `clock_ns` is its own time so far, `done` that it has ended or failed."""

    lane: DecodeLane
    events: Iterator[Event]
    clock_ns: int = 0
    done: bool = False
    turns: OpenTurns = field(default_factory=OpenTurns)

    def until(self, stop: Callable[[Event], bool]) -> Iterator[Event]:
        """Its events up to the first for which `stop` holds, or its end; a failure in its turn ends this lane alone."""
        try:
            for event in self.events:
                if isinstance(event, Round):
                    self.clock_ns += event.t1 - event.t0
                self.done = isinstance(event, TurnEnd)
                self.turns.see(event)
                yield event
                if self.done or stop(event):
                    return
        except SpecmonError as failed:
            ends = self.turns.fail(str(failed), clock=self.lane.now)
            if not ends:
                raise  # its turn never began: the request itself is refused
            yield from ends
        self.done = True

    def run_turn(self) -> Iterator[Event]:
        """At least MIN_ROUNDS rounds and MIN_NS of its own time, then one more that is drained."""
        self.lane.resume()
        rounds, start_ns = 0, self.clock_ns
        while not self.done and (rounds < MIN_ROUNDS - 1 or self.clock_ns - start_ns < MIN_NS):
            yield from self.until(lambda event: isinstance(event, Round))
            rounds += 1
        if not self.done:
            self.lane.pause_after_round()
            yield from self.until(lambda event: isinstance(event, Round))


def race(
    lanes: Sequence[DecodeLane], request: Request, *, turn: int, cancelled: Callable[[], bool]
) -> Iterator[Event]:
    """Decode `request` on every lane; lane numbers are places in `lanes`. The starting order rotates with `turn`.

    A lane that fails ends with an error while the others go on.
    Raises: UsageError where a lane cannot take the request at all.
    """
    for lane in lanes:
        lane.forget()
    racers = [
        _Racer(lane, lane.generate(request, lane=i, turn=turn, cancelled=cancelled))
        for i, lane in enumerate(lanes)
    ]
    order = [racers[(i + turn) % len(racers)] for i in range(len(racers))]
    for racer in order:
        yield from racer.until(lambda event: isinstance(event, Prefill))
    while running := [racer for racer in order if not racer.done]:
        yield from min(running, key=lambda racer: racer.clock_ns).run_turn()
