"""All events in, all numbers out: the one object that views, summaries and checks read.

Feed it the events of a stream in their order, live or from a file. It is the only state behind the figures,
so two ledgers fed with the same events agree.
"""

from __future__ import annotations

from collections import deque

from specmon.core.events import (
    AnyEvent,
    ArStep,
    ClockSync,
    DeviceInfo,
    Gap,
    Header,
    Lane,
    Log,
    Marker,
    Prefill,
    Round,
    Telemetry,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.metrics.windows import Window

LOG_LINES = 2_000
ROUNDS_KEPT = 50_000  # of a lane's turns that ended; some 100 MB
TELEMETRY_SAMPLES = 1_200  # four minutes at 5 Hz


class LaneMetrics:
    """One lane: how it is configured now, and its turns, oldest first."""

    def __init__(
        self, lane: Lane, telemetry: dict[str, Telemetry], history: dict[str, deque[Telemetry]]
    ) -> None:
        self.lane = lane
        self.turns: list[TurnMetrics] = []
        self.forgotten = 0  # older turns that were let go
        self.telemetry = telemetry  # newest of each device; devices are shared, so all lanes see the same
        self.telemetry_history = history  # older ones too, oldest first
        self.ar_step: ArStep | None = None
        self._by_number: dict[int, TurnMetrics] = {}
        self._leaving: list[Round] = []  # of turns that were let go

    @property
    def ar_step_ns(self) -> int | None:
        """How long an AR step takes, None while not measured."""
        return None if self.ar_step is None else self.ar_step.ns

    def set_ar_step(self, kv_len: int, steps: int, ns: int) -> None:
        """Keep what an AR step was measured to take: median `ns` of `steps` steps at `kv_len`.

        Raises: ValueError if ns < 1.
        """
        if ns < 1:
            raise ValueError(f"an AR step takes at least 1 ns, not {ns}")
        self.ar_step = ArStep(t=0, lane=self.lane.lane, kv_len=kv_len, steps=steps, ns=ns)

    def turn(self, number: int) -> TurnMetrics | None:
        """The turn that its events call `number`."""
        return self._by_number.get(number)

    def start_turn(self, turn: TurnMetrics) -> None:
        """Add a turn; one with a known number replaces it. The oldest are let go beyond ROUNDS_KEPT rounds."""
        known = self._by_number.get(turn.turn.turn)
        if known is None:
            self._let_go()
            self.turns.append(turn)
        else:
            self.turns[self.turns.index(known)] = turn
        self._by_number[turn.turn.turn] = turn

    def _let_go(self) -> None:
        """Forget the oldest turns while those that ended hold more than ROUNDS_KEPT rounds, but never the newest."""
        kept = sum(turn.n_rounds for turn in self.turns)
        while len(self.turns) > 1 and kept > ROUNDS_KEPT:
            oldest = self.turns.pop(0)
            del self._by_number[oldest.turn.turn]
            kept -= oldest.n_rounds
            self.forgotten += 1
            self._leaving += oldest.rounds

    def feed_round(self, turn: TurnMetrics, round_: Round) -> None:
        """Take the next round of one of the turns; of those let go two leave, since freeing all at once takes long."""
        turn.feed_round(round_)
        del self._leaving[-2:]

    def conversation_windows(self, size: int) -> list[Window]:
        """Windows of `size` tokens over KV length, of all turns of the newest conversation.

        A turn goes on with a conversation when it kept the KV of the whole prompt of the turn before.
        """
        first = len(self.turns) - 1
        while first > 0 and self.turns[first].turn.reused_tokens >= self.turns[first - 1].turn.prompt_tokens:
            first -= 1
        return [window for turn in self.turns[max(first, 0) :] for window in turn.windows(size)]


class Ledger:
    """The state behind every figure. `feed` costs the same however long the stream is."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.lanes: dict[int, LaneMetrics] = {}
        self.vocabulary: dict[int, str] = {}
        self.telemetry: dict[str, Telemetry] = {}
        self.telemetry_history: dict[str, deque[Telemetry]] = {}
        self.clocks: dict[str, ClockSync] = {}
        self.logs: deque[Log] = deque(maxlen=LOG_LINES)
        self.markers: list[Marker] = []
        self.gaps: list[Gap] = []
        self.newest_t = 0
        self.orphans = 0  # events of a lane or turn whose start was never seen

    def feed(self, event: AnyEvent) -> None:
        """Take the next event of the stream."""
        self.newest_t = max(self.newest_t, event.t)
        match event:
            case Round() | Prefill() | TurnEnd():
                self._feed_turn(event)
            case Telemetry():
                self._feed_telemetry(event)
            case Vocabulary():
                self.vocabulary.update(event.pieces)
            case Log():
                self.logs.append(event)
            case Turn():
                self._start_turn(event)
            case Lane():
                self._feed_lane(event)
            case Header():
                self.header = event
            case ClockSync():
                self.clocks[event.device] = event
            case Marker():
                self.markers.append(event)
            case ArStep():
                self._feed_ar_step(event)
            case Gap():
                self.gaps.append(event)
            case _:  # Sample and Snapshot hold other programs' figures and a file's keyframes
                pass

    def piece(self, token_id: int | None) -> str:
        """Text of a token; "#id" where no vocabulary gave it, "#?" where the id was removed."""
        if token_id is None:
            return "#?"
        return self.vocabulary.get(token_id, f"#{token_id}")

    def device(self, name: str) -> DeviceInfo | None:
        """What the header says about a device."""
        devices = self.header.devices if self.header is not None else ()
        return next((device for device in devices if device.name == name), None)

    def _feed_lane(self, lane: Lane) -> None:
        known = self.lanes.get(lane.lane)
        if known is None:
            self.lanes[lane.lane] = LaneMetrics(lane, self.telemetry, self.telemetry_history)
            return
        if _same_target(known.lane, lane) is False:
            known.ar_step = None
        known.lane = lane

    def _start_turn(self, turn: Turn) -> None:
        lane = self.lanes.get(turn.lane)
        if lane is None:
            self.orphans += 1
            return
        devices = tuple(self.device(name) for name in lane.lane.devices)
        lane.start_turn(TurnMetrics(turn, lane.lane, devices))

    def _feed_turn(self, event: Round | Prefill | TurnEnd) -> None:
        lane = self.lanes.get(event.lane)
        turn = None if lane is None else lane.turn(event.turn)
        if lane is None or turn is None:
            self.orphans += 1
        elif isinstance(event, Round):
            lane.feed_round(turn, event)
        elif isinstance(event, Prefill):
            turn.feed_prefill(event)
        else:
            turn.feed_end(event)
            self._learn_ar_step(turn)

    def _learn_ar_step(self, turn: TurnMetrics) -> None:
        """A whole AR turn is a measurement of the AR step for every lane with the same target."""
        if turn.lane.decoder != "ar" or turn.decode_ns <= 0:
            return
        kv_len = turn.turn.prompt_tokens + turn.n_tokens // 2
        self._spread_ar_step(turn.lane, kv_len, turn.n_rounds, max(1, turn.decode_ns // turn.n_rounds))

    def _feed_ar_step(self, step: ArStep) -> None:
        lane = self.lanes.get(step.lane)
        if lane is None:
            self.orphans += 1
        elif step.ns > 0:
            self._spread_ar_step(lane.lane, step.kv_len, step.steps, step.ns)

    def _spread_ar_step(self, measured: Lane, kv_len: int, steps: int, ns: int) -> None:
        """Every lane with the target that was measured knows how long its AR step takes."""
        for lane in self.lanes.values():
            if _same_target(lane.lane, measured):
                lane.set_ar_step(kv_len, steps, ns)

    def _feed_telemetry(self, sample: Telemetry) -> None:
        self.telemetry[sample.device] = sample
        history = self.telemetry_history.get(sample.device)
        if history is None:
            history = self.telemetry_history[sample.device] = deque(maxlen=TELEMETRY_SAMPLES)
        history.append(sample)


def _same_target(a: Lane, b: Lane) -> bool:
    return (a.target, a.recipe, a.backend, a.devices[:1]) == (b.target, b.recipe, b.backend, b.devices[:1])
