"""Record the sessions that ship: demos of every decoder, and one recording for each cause that a CPU can show.

`record_sessions.py [NAME…]` records all of them, or those named, into sessions/. Each is a real run of the engine on the
embedded pair. Throttling, launches that hold a GPU up, and a memory that verification exhausts cannot be had on a CPU whose
cache holds the model: those three are real runs whose telemetry, gaps or ceiling are edited afterwards, and a `Marker`
in the file says so. Slow branches and the h200x2 demos are runs on two GPUs, made apart. A recording is kept only if it
passes every check and, where it has a cause to show, WHY names that cause. Run it while nothing else does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import Command, Generate, LaneConfig, Load, MeasureAr, Race, Request
from specmon.core.errors import SpecmonError
from specmon.core.events import AnyEvent, Event, Header, Marker, Round, Span, Telemetry
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.spans import verify_ns
from specmon.core.metrics.validate import Validator
from specmon.core.metrics.why import why
from specmon.core.session.writer import SessionWriter
from specmon.tui.commands.headless import Headless

SESSIONS = Path(__file__).resolve().parent.parent / "sessions"
CODE = "Write a Python function that merges two sorted lists."
STORY = "Tell me a short story about a lighthouse keeper and a storm."
AR_TOKENS = 48
ATTEMPTS = 3
MOST_BYTES = 200_000
TELEMETRY_PERIOD_NS = 200_000_000

Events = list[AnyEvent]


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One recording: the lanes, what is asked, and the cause it has to show; `plant` edits the real run."""

    lanes: tuple[LaneConfig, ...]
    prompt: str = CODE
    max_new_tokens: int = 160
    cause: str | None = None
    measure_ar: bool = False
    ar_first: bool = False  # an AR turn of the same prompt comes before, so that its step is known all along
    plant: Callable[[Events], Events] | None = None


def plant_launches(events: Events) -> Events:
    """Let no device work for as long as each round took, as if the host could not launch faster."""
    out: Events = [note(events, "planted: a gap before every round's work, and its host launches")]
    shift = 0
    for event in events[1:]:
        if isinstance(event, Round):
            gap = event.t1 - event.t0
            moved = tuple(moved_span(span, shift + gap) for span in event.spans)
            t0, shift = event.t0 + shift, shift + gap
            event = replace(event, t0=t0, t1=event.t1 + shift, spans=moved, host_launches=412)
        out.append(replace(event, t=event.t + shift))
    return [events[0], *out]


def plant_throttling(events: Events) -> Events:
    """Slow every round after the first third, and say in the target's telemetry that its clock is held down."""
    rounds = [event for event in events if isinstance(event, Round)]
    hot_from, full_mhz, held_mhz = rounds[len(rounds) // 3].t0, 2_900, 1_700
    factor = full_mhz / held_mhz

    def late(t: int) -> int:
        return t if t <= hot_from else hot_from + round((t - hot_from) * factor)

    planted: Events = [note(events, "planted: telemetry of a held clock, and the rounds slowed to match")]
    due = rounds[0].t0
    for event in events[1:]:
        while isinstance(event, Round) and due < late(event.t):
            hot = due > hot_from
            planted.append(
                Telemetry(
                    t=due,
                    device="cpu:0",
                    sm_clock_mhz=held_mhz if hot else full_mhz,
                    temperature_c=97 if hot else 71,
                    throttle=("software thermal",) if hot else (),
                    note="planted",
                )
            )
            due += TELEMETRY_PERIOD_NS
        if isinstance(event, Round):
            spans = tuple(replace(s, start=late(s.start), end=late(s.end)) for s in event.spans)
            branches = tuple(
                replace(b, ready_at=None if b.ready_at is None else late(b.ready_at)) for b in event.branches
            )
            event = replace(event, t0=late(event.t0), t1=late(event.t1), spans=spans, branches=branches)
        planted.append(replace(event, t=late(event.t)))
    return [events[0], *planted]


def plant_ceiling(events: Events) -> Events:
    """Give the device a memory so slow, and no cache, that the target's bytes need 85 % of its verification."""
    rounds = [event for event in events if isinstance(event, Round)]
    n_bytes = sum(b.weights + b.kv for r in rounds for b in r.bytes if b.device == 0)
    ceiling = n_bytes * 1e9 / (0.85 * sum(map(verify_ns, rounds)))
    header = events[0]
    assert isinstance(header, Header)
    devices = tuple(replace(d, read_ceiling=ceiling, llc_bytes=None) for d in header.devices)
    slow = replace(header, devices=devices, ceiling_source="planted")
    return [slow, note(events, "planted: a read ceiling just above what the target reads"), *events[1:]]


def moved_span(span: Span, by: int) -> Span:
    """The same work, `by` ns later."""
    return replace(span, start=span.start + by, end=span.end + by)


def note(events: Events, label: str) -> Marker:
    """The marker that says what was edited."""
    return Marker(t=events[0].t, label=label)


SD, SSD = LaneConfig(decoder="sd"), LaneConfig(decoder="ssd")
SHOTS: dict[str, Shot] = {
    "ar": Shot(lanes=(LaneConfig(decoder="ar"),), prompt=STORY),
    "sd": Shot(lanes=(SD,), measure_ar=True),
    "ssd": Shot(lanes=(SSD,), measure_ar=True),
    "eagle3": Shot(lanes=(replace(SD, draft="eagle3"),), measure_ar=True),
    "race": Shot(lanes=(LaneConfig(decoder="ar"), SD, SSD), max_new_tokens=96),
    "causes/launch-bound": Shot(lanes=(SD,), cause="launch-bound", plant=plant_launches),
    "causes/verify-bound": Shot(
        lanes=(LaneConfig(decoder="ar"),), prompt=STORY, cause="verify-bound", plant=plant_ceiling
    ),
    "causes/weak-drafter": Shot(
        lanes=(replace(SD, draft="scripted:0.1"),), prompt=STORY, cause="weak drafter", ar_first=True
    ),
    "causes/k-too-deep": Shot(lanes=(replace(SD, draft_len=12),), cause="K too deep", ar_first=True),
    "causes/empty-slots": Shot(lanes=(replace(SSD, fan_out=(8,)),), cause="empty slots"),
    "causes/no-overlap": Shot(lanes=(replace(SSD, devices="cpu:0"),), cause="no overlap"),
    "causes/throttling": Shot(lanes=(SD,), cause="throttling", plant=plant_throttling),
}


def record(shot: Shot) -> Events:
    """Run the engine and give all that it said, without the name of the machine."""
    events: Events = []

    def take(event: Event) -> None:
        events.append(cast(AnyEvent, event))

    with Headless(EngineClient.start(), take) as engine:
        for command in commands(shot):
            engine.do(command)
    cleaned = [replace(event, host=None) if isinstance(event, Header) else event for event in events]
    return shot.plant(cleaned) if shot.plant is not None else cleaned


def commands(shot: Shot) -> Iterable[Command]:
    """What the engine is asked to do, one after the other."""
    request = Request(messages=(("user", shot.prompt),), max_new_tokens=shot.max_new_tokens)
    if shot.ar_first:
        yield Load(config=replace(shot.lanes[0], decoder="ar"))
        yield Generate(request=replace(request, max_new_tokens=AR_TOKENS))
    for lane, config in enumerate(shot.lanes):
        yield Load(lane=lane, config=config)
    yield Generate(request=request) if len(shot.lanes) == 1 else Race(request=request)
    if shot.measure_ar:
        yield MeasureAr()


def fault(shot: Shot, events: Events) -> str | None:
    """What speaks against keeping a recording; None where nothing does."""
    validator, ledger = Validator(), Ledger()
    for event in events:
        validator.feed(event)
        ledger.feed(event)
    if not (report := validator.finish()).ok:
        return report.problems[0]
    lane = ledger.lanes[0]
    said = why(lane, lane.turns[-1])
    print(f"  {said.text}", flush=True)
    named = None if said.cause is None else said.cause.name
    return f"WHY names {named}" if shot.cause is not None and named != shot.cause else None


def shoot(name: str) -> bool:
    """Record until one is worth keeping, and keep that one."""
    for _ in range(ATTEMPTS):
        print(name, flush=True)
        events = record(SHOTS[name])
        if (reason := fault(SHOTS[name], events)) is not None:
            print(f"  not kept: {reason}", flush=True)
            continue
        path = SESSIONS / f"{name}.session"
        path.parent.mkdir(parents=True, exist_ok=True)
        with SessionWriter(path, force=True) as writer:
            for event in events:
                writer.write(event)
        path.chmod(0o644)
        print(f"  {path.stat().st_size:,} bytes", flush=True)
        return path.stat().st_size <= MOST_BYTES
    return False


def main() -> None:
    names = sys.argv[1:] or list(SHOTS)
    if unknown := [name for name in names if name not in SHOTS]:
        sys.exit(f"no such recording: {', '.join(unknown)}; there are {', '.join(SHOTS)}")
    try:
        failed = [name for name in names if not shoot(name)]
    except SpecmonError as error:
        sys.exit(str(error))
    sys.exit(f"not recorded: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
