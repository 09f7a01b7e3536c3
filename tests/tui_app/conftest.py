"""A fake engine at the client's border, a clock that tests move, and event streams with fixed times."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from specmon.core.engine.death import EngineDeath
from specmon.core.engine.messages import (
    Command,
    Hello,
    Idle,
    LaneConfig,
    Notice,
    Ready,
    Recording,
    Request,
)
from specmon.core.events import (
    AnyEvent,
    Branch,
    DeviceBytes,
    DeviceInfo,
    Event,
    Header,
    Lane,
    Prefill,
    PrefillChunk,
    Round,
    Span,
    Turn,
    TurnEnd,
)
from specmon.core.session.writer import SessionWriter
from specmon.tui.app import SpecmonApp
from specmon.tui.feeds.live import LiveFeed
from specmon.tui.feeds.replay import ReplayFeed

MS = 1_000_000
K = 4
WORDS = [
    "def",
    " merge",
    "(a",
    ", b",
    "):",
    "\n",
    "    out",
    " =",
    " []",
    "\n",
    "    while",
    " i",
    " <",
    " len",
    "(a):",
]
#: accepted_len of the rounds, over and over
PATTERN = (2, 4, 0, 3, 2, 1, 4, 2)


class FakeClock:
    """Seconds that stand still until a test moves them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeEngine:
    """What `LiveFeed` talks to: keeps the commands, hands out what a test gives it."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.inbox: deque[Event | Notice] = deque()
        self.dead: EngineDeath | None = None
        self.closed = False
        self.starts = 0
        self.patience_s = 0.0

    def connect(self) -> FakeEngine:
        self.starts += 1
        self.dead, self.closed = None, False
        self.give(Hello(pid=7, spool=None, log="/state/engine.log"))
        return self

    def give(self, *items: Event | Notice) -> None:
        self.inbox.extend(items)

    def ready(self, lane: int = 0) -> None:
        """Answer a Load."""
        self.give(HEADER, lane_event(lane), Ready(lane=lane), Idle(of="Load"))

    @property
    def alive(self) -> bool:
        return self.dead is None or bool(self.inbox)

    def send(self, command: Command) -> None:
        self.commands.append(command)

    def poll(self, max_items: int = 4096) -> list[Event | Notice]:
        return [self.inbox.popleft() for _ in range(min(max_items, len(self.inbox)))]

    def death(self) -> EngineDeath | None:
        return self.dead

    def close(self, timeout_s: float = 20.0) -> None:
        self.closed, self.patience_s = True, timeout_s

    def sent(self, kind: type[Command]) -> list[Command]:
        """The commands of one kind."""
        return [command for command in self.commands if isinstance(command, kind)]


HEADER = Header(
    t=0,
    versions={"specmon": "0"},
    utc_start="2026-01-01T00:00:00Z",
    devices=(
        DeviceInfo(name="cuda:0", model="H", read_ceiling=4.39e12, llc_bytes=50_000_000),
        DeviceInfo(name="cuda:1", model="H", read_ceiling=4.39e12, llc_bytes=50_000_000),
    ),
    ceiling_source="read of 1 GiB, median of 5",
)


def lane_event(lane: int = 0, decoder: str = "ssd") -> Lane:
    return Lane(
        t=0,
        lane=lane,
        decoder=decoder,  # type: ignore[arg-type]
        target="Qwen2.5-7B",
        drafter="Qwen2.5-0.5B",
        drafter_kind="draft_model",
        recipe="bf16",
        backend="reference-1",
        devices=("cuda:0", "cuda:1"),
        target_weight_bytes=14_000_000_000,
        draft_weight_bytes=900_000_000,
        kv_bytes_per_token=57_344,
        draft_kv_bytes_per_token=12_288,
        context_length=32_768,
    )


def turn_events(turn: int = 0, rounds: int = 12, *, start: int = MS, end: bool = True) -> list[AnyEvent]:
    """One SSD turn on two devices: 4 ms a round, accepted_len by PATTERN, a miss after each full rejection."""
    first = start + 41 * MS
    events: list[AnyEvent] = [
        Turn(
            t=start,
            turn=turn,
            prompt=f"Question {turn + 1}?",
            prompt_tokens=84,
            draft_len=K,
            fan_out=(1,) * (K + 1),
            max_new_tokens=256,
        ),
        Prefill(
            t=first,
            turn=turn,
            t0=start,
            chunks=(PrefillChunk(0, 84, start, first),),
            token_one=100,
            text=WORDS[0],
        ),
    ]
    rounds_made = list(itertools.islice(_rounds(turn, first), rounds))
    events += rounds_made
    if end:
        n_tokens = 1 + sum(len(r.emitted) for r in rounds_made)
        last = rounds_made[-1].t1 if rounds_made else first
        events.append(TurnEnd(t=last, turn=turn, stop_reason="length", n_tokens=n_tokens, rounds=rounds))
    return events


def _rounds(turn: int, t: int) -> Iterator[Round]:
    kv, token, word = 85, 200, 1
    draft = tuple(range(token, token + K))
    for index in itertools.count():
        accepted = PATTERN[index % len(PATTERN)]
        bonus = 900 + index
        missed = accepted == 0
        length = (6 if index and PATTERN[(index - 1) % len(PATTERN)] == 0 else 4) * MS
        t1 = t + length
        kv += accepted + 1
        following = tuple(range(300 + 10 * index, 300 + 10 * index + K))
        texts = tuple(WORDS[(word + i) % len(WORDS)] for i in range(accepted + 1))
        word += accepted + 1
        branches = tuple(
            Branch(a, bonus if a == accepted and not missed else 50 + a, 1, 0.5, following, t + 2 * MS)
            for a in range(K + 1)
        )
        yield Round(
            t=t1,
            turn=turn,
            index=index,
            t0=t,
            t1=t1,
            requested_k=K,
            drafter="draft_model",
            draft=draft,
            draft_probs=(0.97, 0.9, 0.6, 0.5),
            accepted_len=accepted,
            bonus=bonus,
            emitted=(*draft[:accepted], bonus),
            text=texts,
            margin=1.5,
            kv_len=(kv, kv),
            fan_out=(1,) * (K + 1),
            branches=branches,
            hit=None if missed else accepted,
            miss="rank" if missed else None,
            fallback="draft_model" if missed else None,
            spans=(
                Span(0, "main", "verify", t1 - 39 * MS // 10, t1 - MS // 10, index),
                Span(0, "main", "accept", t1 - MS // 10, t1, index),
                Span(1, "draft", "branch_draft", t1 - 38 * MS // 10, t1 - 2 * MS, index),
            ),
            bytes=(
                DeviceBytes(0, 14_000_000_000, kv * 57_344, 0),
                DeviceBytes(1, 900_000_000, kv * 12_288, 64),
            ),
            host_launches=3,
        )
        t, draft = t1, following


def bursts() -> Iterator[AnyEvent]:
    """Two lanes of 24 rounds that decode 8 rounds each in turns, on one clock."""
    yield HEADER
    yield lane_event(0, "sd")
    yield lane_event(1, "ssd")
    whole = [turn_events(0, 24), turn_events(0, 24)]
    bodies = [[e for e in events if isinstance(e, Round)] for events in whole]
    for lane, events in enumerate(whole):
        yield from (replace(e, lane=lane) for e in events[:2])
    now = bodies[0][0].t0
    for burst in range(3):
        for lane, rounds in enumerate(bodies):
            for round_ in rounds[8 * burst : 8 * burst + 8]:
                yield shifted(round_, now - round_.t0, lane)
                now += round_.t1 - round_.t0
    for lane, events in enumerate(whole):
        yield replace(events[-1], lane=lane, t=now)


def shifted(round_: Round, by: int, lane: int) -> Round:
    return replace(
        round_,
        lane=lane,
        t=round_.t + by,
        t0=round_.t0 + by,
        t1=round_.t1 + by,
        spans=tuple(replace(s, start=s.start + by, end=s.end + by) for s in round_.spans),
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


LiveApp = Callable[..., SpecmonApp]


@pytest.fixture
def live_app(engine: FakeEngine, clock: FakeClock, tmp_path: Path) -> LiveApp:
    """Make an app over the fake engine; nothing moves unless a test calls `tick`."""

    def make(request: Request | None = None, config: LaneConfig | None = None, **more: object) -> SpecmonApp:
        feed = LiveFeed(engine.connect)  # type: ignore[arg-type]
        return SpecmonApp(
            feed,
            initial_request=request,
            config=config or LaneConfig(),
            recordings=tmp_path / "recordings",
            refresh_hz=0,
            clock=clock,
            **more,  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def two_turns() -> list[AnyEvent]:
    """A whole stream: header, lane, turns of 12 and 8 rounds, three seconds apart."""
    return [HEADER, lane_event(), *turn_events(0, 12), *turn_events(1, 8, start=3_200 * MS)]


@pytest.fixture
def replay_app(two_turns: list[AnyEvent], clock: FakeClock, tmp_path: Path) -> Callable[..., SpecmonApp]:
    """Make an app over a recording of `two_turns`."""
    path = tmp_path / "two.session"
    writer = SessionWriter(path)
    for event in two_turns:
        writer.write(event)
    writer.close()

    def make(**more: object) -> SpecmonApp:
        feed = ReplayFeed(path, clock=clock)
        folder = tmp_path / "recordings"
        return SpecmonApp(feed, recordings=folder, refresh_hz=0, clock=clock, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def recording_notice() -> Recording:
    return Recording(path="/r/x.session", seconds=4.1, bytes=300_000)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Record events under a name; `closed=False` leaves the file as a killed run does."""

    def record(name: str, events: Sequence[Event], *, closed: bool = True) -> Path:
        path = tmp_path / f"{name}.session"
        writer = SessionWriter(path)
        for event in events:
            writer.write(event)
        writer.close() if closed else writer.flush()
        return path

    return record
