"""Recordings made apart, put side by side as lanes of one race that starts where each began to decode.

Turns are paired by their order: the first of each recording, then the second of each, as far as all have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge

from msgspec.structs import replace

from specmon.core.errors import UsageError
from specmon.core.events import (
    AnyEvent,
    DeviceInfo,
    Event,
    Header,
    Lane,
    Prefill,
    Round,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.metrics.race import Unlike, reference_lane

MAX_LANES = 4
START_NS = 1_000_000_000  # from a pair's start to where its lanes begin to decode, at least


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One stream of all lanes, in which turn n holds the n-th turn of every recording.

    `unlike` says, for every turn, what forbids to compare a lane with the reference; `turns` how many each recording
    holds. For every lane, `sources` has its recording's place and `devices` what its devices are called there, by their
    name here.
    """

    events: list[Event]
    unlike: tuple[Unlike, ...]
    turns: tuple[int, ...]
    sources: tuple[int, ...]
    devices: tuple[Mapping[str, str], ...]

    @property
    def unpaired(self) -> str:
        """How many turns each recording holds, in words, where not all have the same number."""
        if len(set(self.turns)) < 2:
            return ""
        counts = f"{', '.join(map(str, self.turns[:-1]))} and {self.turns[-1]}"
        paired = "is" if len(self.unlike) == 1 else f"{len(self.unlike)} are"
        return f"{counts} turns: of each only the first {paired} paired"


@dataclass
class _Run:
    """One lane's turn in one recording: its events by their own names, and the prompts it goes on from."""

    header: Header
    lane: Lane
    turn: Turn
    history: tuple[str | None, ...]
    prefill: Prefill | None
    rounds: list[Round]
    end: TurnEnd | None

    @property
    def decoding_at(self) -> int:
        """When it began to decode, on its own clock."""
        return self.prefill.t if self.prefill else self.turn.t


_Pair = dict[int, _Run]  # by lane of the race


def side_by_side(recordings: Sequence[Sequence[Event]]) -> SideBySide:
    """Put the turns of each recording beside those of the others.

    Every lane runs on its own clock: a round starts where the one before it ended.

    Raises: UsageError where there are not two to four lanes in all, or a recording holds no turn.
    """
    turns = [_turns_of(events) for events in recordings]
    n_pairs = min(map(len, turns), default=0)
    lanes = [
        (place, lane)
        for place, runs in enumerate(turns)
        for lane in sorted({lane for turn in runs[: max(n_pairs, 1)] for lane in turn})
    ]
    if not 2 <= len(lanes) <= MAX_LANES:
        raise UsageError(
            f"These recordings have {len(lanes)} lanes with a turn, but a race has two to {MAX_LANES}."
        )
    if not n_pairs:
        raise UsageError(f"Recording {next(i for i, t in enumerate(turns, 1) if not t)} holds no turn.")
    pairs: list[_Pair] = [
        {
            number: turns[place][n][lane]
            for number, (place, lane) in enumerate(lanes)
            if lane in turns[place][n]
        }
        for n in range(n_pairs)
    ]
    names = _device_names(pairs, len(lanes))
    first = {number: run for pair in reversed(pairs) for number, run in pair.items()}
    events: list[Event] = [_header(recordings, pairs, names)]
    events += [_renamed(first[number], number, names[number], 0) for number in range(len(lanes))]
    events += _vocabularies(recordings)
    events += _bodies(pairs, first, names)
    return SideBySide(
        events=events,
        unlike=tuple(_unlike(pair) for pair in pairs),
        turns=tuple(map(len, turns)),
        sources=tuple(place for place, _ in lanes),
        devices=tuple({shown: own for own, shown in each.items()} for each in names),
    )


def _turns_of(events: Sequence[Event]) -> list[dict[int, _Run]]:
    """A recording's turns in order, each with the lanes that began it."""
    header = _header_of(events)
    configured: dict[int, Lane] = {}
    newest: dict[int, _Run] = {}
    turns: dict[int, dict[int, _Run]] = {}
    for event in events:
        if isinstance(event, Lane):
            configured[event.lane] = event
        elif isinstance(event, Turn) and event.lane in configured:
            before = newest.get(event.lane)
            goes_on = before is not None and event.reused_tokens >= before.turn.prompt_tokens
            history = (*before.history, before.turn.prompt) if before is not None and goes_on else ()
            run = _Run(header, configured[event.lane], event, history, None, [], None)
            newest[event.lane] = turns.setdefault(event.turn, {})[event.lane] = run
        elif isinstance(event, Prefill | Round | TurnEnd) and event.lane in turns.get(event.turn, {}):
            _take(turns[event.turn][event.lane], event)
    return list(turns.values())


def _header_of(events: Sequence[Event]) -> Header:
    return next((event for event in events if isinstance(event, Header)), Header(t=0))


def _take(run: _Run, event: Prefill | Round | TurnEnd) -> None:
    if isinstance(event, Prefill):
        run.prefill = event
    elif isinstance(event, TurnEnd):
        run.end = event
    elif not event.discarded:
        run.rounds.append(event)


def _bodies(
    pairs: Sequence[_Pair], configured: Mapping[int, _Run], names: Sequence[dict[str, str]]
) -> Iterator[Event]:
    """The turns of one pair after those of the other, with a lane's configuration where it changes."""
    now = 0
    known = {number: run.lane for number, run in configured.items()}
    for turn, pair in enumerate(pairs):
        for number, run in pair.items():
            if run.lane != known[number]:
                known[number] = run.lane
                yield _renamed(run, number, names[number], now)
        start = now + max(START_NS, *(run.decoding_at - run.turn.t for run in pair.values()))
        bodies = [_retimed(run, number, turn, start) for number, run in pair.items()]
        for event in merge(*bodies, key=lambda event: event.t):
            now = event.t
            yield event


def _retimed(run: _Run, number: int, turn: int, start: int) -> list[AnyEvent]:
    """The run's events as turn `turn` of lane `number`, which begins to decode at `start`."""
    before = start - run.decoding_at
    here = {"lane": number, "turn": turn}
    events: list[AnyEvent] = [replace(run.turn, t=run.turn.t + before, **here)]
    if run.prefill is not None:
        prefill = run.prefill
        chunks = tuple(replace(c, t0=c.t0 + before, t1=c.t1 + before) for c in prefill.chunks)
        spans = tuple(replace(s, start=s.start + before, end=s.end + before) for s in prefill.spans)
        events.append(replace(prefill, t=start, t0=prefill.t0 + before, chunks=chunks, spans=spans, **here))
    clock = start
    for round_ in run.rounds:
        events.append(replace(_shifted(round_, clock - round_.t0), **here))
        clock += round_.t1 - round_.t0
    if run.end is not None:
        events.append(replace(run.end, t=clock, **here))
    return events


def _shifted(round_: Round, by: int) -> Round:
    return replace(
        round_,
        t=round_.t1 + by,
        t0=round_.t0 + by,
        t1=round_.t1 + by,
        spans=tuple(replace(s, start=s.start + by, end=s.end + by) for s in round_.spans),
        branches=tuple(
            b if b.ready_at is None else replace(b, ready_at=b.ready_at + by) for b in round_.branches
        ),
    )


def _device_names(pairs: Sequence[_Pair], n_lanes: int) -> list[dict[str, str]]:
    """What each lane's devices are called here: another name where another machine has one of that name."""
    known: dict[str, DeviceInfo | None] = {}
    names: list[dict[str, str]] = [{} for _ in range(n_lanes)]
    for number, own in enumerate(names):
        for run in (pair[number] for pair in pairs if number in pair):
            for name in run.lane.devices:
                info = _device(run.header, name)
                is_other = name in known and known[name] != info
                own[name] = f"{name} of {'ABCD'[number]}" if is_other else name
                known.setdefault(own[name], info)
    return names


def _device(header: Header, name: str) -> DeviceInfo | None:
    return next((device for device in header.devices if device.name == name), None)


def _header(
    recordings: Sequence[Sequence[Event]], pairs: Sequence[_Pair], names: Sequence[dict[str, str]]
) -> Header:
    """The first recording's header, with every lane's devices."""
    devices = {
        shown: replace(info, name=shown)
        for pair in pairs
        for number, run in pair.items()
        for name, shown in names[number].items()
        if (info := _device(run.header, name)) is not None
    }
    headers = [_header_of(events) for events in recordings]
    return replace(
        headers[0], t=0, devices=tuple(devices.values()), redacted=any(header.redacted for header in headers)
    )


def _renamed(run: _Run, number: int, names: dict[str, str], t: int) -> Lane:
    return replace(run.lane, t=t, lane=number, devices=tuple(names[name] for name in run.lane.devices))


def _vocabularies(recordings: Sequence[Sequence[Event]]) -> list[Event]:
    """The vocabularies, but not those of another tokenizer than the first recording's."""
    pieces: dict[int, str] = {}
    for events in recordings:
        if _tokenizer(events) == _tokenizer(recordings[0]):
            for event in events:
                if isinstance(event, Vocabulary):
                    pieces |= event.pieces
    return [Vocabulary(t=0, pieces=pieces)] if pieces else []


def _tokenizer(events: Sequence[Event]) -> str | None:
    return _header_of(events).hashes.get("tokenizer")


def _unlike(pair: _Pair) -> Unlike:
    """In what lanes differ from the reference besides their decoders."""
    facts = {number: _facts(run) for number, run in pair.items()}
    reference = reference_lane({number: run.end for number, run in pair.items()})
    base = next(iter(facts.values())) if reference is None else facts[reference]
    found = {
        number: tuple(what for what in base if _differ(base[what], own[what]))
        for number, own in facts.items()
    }
    return {number: differences for number, differences in found.items() if differences}


def _facts(run: _Run) -> dict[str, tuple[object, ...]]:
    """What must be the same for a ratio; None where the recording does not tell."""
    lane, turn, header = run.lane, run.turn, run.header
    devices = [device for name in lane.devices if (device := _device(header, name)) is not None]
    caps = [device.power_cap_w for device in devices]
    return {
        "prompt": (turn.prompt, turn.prompt_tokens),
        "history": (turn.reused_tokens, len(run.history), *run.history),
        "target": (lane.target, header.hashes.get("target")),
        "recipe": (lane.recipe, lane.backend),
        "sampling": (turn.sampling, turn.stop_strings),
        "max_new_tokens": (turn.max_new_tokens,),
        "hardware": (
            {device.model for device in devices} or None,
            None if not caps or None in caps else set(caps),
        ),
    }


def _differ(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Whether two lanes tell something else; what one does not tell differs from nothing."""
    return any(x != y for x, y in zip(a, b, strict=False) if x is not None and y is not None)
