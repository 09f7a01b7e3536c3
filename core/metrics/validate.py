"""The identities of the glossary, held against a whole stream.

validator = Validator()
for event in events:
    validator.feed(event)
report = validator.finish()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from specmon.core.events import (
    AnyEvent,
    Event,
    Gap,
    Header,
    Lane,
    Prefill,
    Round,
    Turn,
    TurnEnd,
)
from specmon.core.metrics import checks
from specmon.core.metrics.check_time import StreamSpans, check_index, check_tiling

MAX_PROBLEMS = 200  # sentences kept; more are only counted


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a stream's check found. `problems` holds the first 200 of `n_problems` sentences.

    `notes` say what could not be checked, and what a stream lacks without being wrong.
    """

    problems: tuple[str, ...]
    n_problems: int
    notes: tuple[str, ...]
    n_events: int
    n_rounds: int

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts the identities."""
        return self.n_problems == 0


@dataclass
class _TurnState:
    """What is known of the turn that runs on a lane."""

    turn: Turn
    lane: Lane
    prefill: Prefill | None = None
    before: Round | None = None  # the newest round
    kept: Round | None = None  # the newest that was not discarded
    n_tokens: int = 0
    n_rounds: int = 0


@dataclass
class _LaneState:
    lane: Lane
    turn: _TurnState | None = None
    last_turn: int | None = None
    busy_until: int = 0  # end of the lane's newest prefill or round
    streams: StreamSpans = field(default_factory=StreamSpans)


class Validator:
    """Feed it a stream's events in order; it keeps problems as sentences that say where they are."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.n_problems = 0
        self.notes: dict[str, None] = {}  # an ordered set
        self._n_events = 0
        self._n_rounds = 0
        self._has_gaps = False
        self._lanes: dict[int, _LaneState] = {}

    def feed(self, event: AnyEvent) -> None:
        """Check the next event."""
        self._n_events += 1
        if self._n_events == 1 and not isinstance(event, Header):
            self._problem(event, f"the stream starts with {type(event).__name__}, not with Header")
        match event:
            case Header():
                if self._n_events > 1:
                    self._problem(event, "a second Header")
            case Lane():
                self._feed_lane(event)
            case Turn():
                self._feed_turn(event)
            case Prefill() | Round() | TurnEnd():
                self._feed_of_turn(event)
            case Gap():
                self._has_gaps = True
                self._note(f"a gap: {event.count} events are missing ({event.reason})")
            case _:
                pass

    def finish(self) -> Report:
        """Say what was found once the stream is over."""
        if not self._n_events:
            self._note("no events")
        for number, lane in self._lanes.items():
            if lane.turn is not None:
                self._note(
                    f"lane {number} turn {lane.turn.turn.turn} has no end: its totals were not checked"
                )
        return Report(
            problems=tuple(self.problems),
            n_problems=self.n_problems,
            notes=tuple(self.notes),
            n_events=self._n_events,
            n_rounds=self._n_rounds,
        )

    # --- saying ---------------------------------------------------------------------------------------------

    def _problem(self, event: Event, sentence: str) -> None:
        self.n_problems += 1
        if len(self.problems) < MAX_PROBLEMS:
            place = f"lane {event.lane} turn {event.turn}"
            if isinstance(event, Round):
                place += f" round {event.index}"
            self.problems.append(f"{place}: {sentence}")

    def _problems(self, event: Event, sentences: list[str]) -> None:
        for sentence in sentences:
            self._problem(event, sentence)

    def _note(self, sentence: str) -> None:
        if len(self.notes) < MAX_PROBLEMS:
            self.notes[sentence] = None

    def _needing_ids(self, event: Event, what: str, check: Callable[[], list[str]]) -> None:
        try:
            self._problems(event, check())
        except checks.Redacted:
            self._note(f"{what}: not checkable: redacted")

    # --- lanes and turns ------------------------------------------------------------------------------------

    def _feed_lane(self, lane: Lane) -> None:
        state = self._lanes.get(lane.lane)
        if state is None:
            self._lanes[lane.lane] = _LaneState(lane)
            return
        if state.turn is not None:
            self._problem(lane, "the lane was configured anew while its turn ran")
        state.lane = lane

    def _feed_turn(self, turn: Turn) -> None:
        state = self._lanes.get(turn.lane)
        if state is None:
            self._problem(turn, "a turn of a lane that was never described")
            return
        if state.turn is not None:
            self._problem(turn, f"starts while turn {state.turn.turn.turn} has no end")
        if state.last_turn is not None and turn.turn <= state.last_turn:
            self._problem(turn, f"comes after turn {state.last_turn}")
        if not 0 <= turn.reused_tokens <= turn.prompt_tokens:
            self._problem(turn, f"reuses {turn.reused_tokens} of {turn.prompt_tokens} prompt tokens")
        state.last_turn = turn.turn
        state.turn = _TurnState(turn, state.lane)

    def _feed_of_turn(self, event: Prefill | Round | TurnEnd) -> None:
        lane = self._lanes.get(event.lane)
        state = None if lane is None else lane.turn
        if lane is None or state is None or state.turn.turn != event.turn:
            self._problem(event, f"{type(event).__name__} outside its turn")
        elif isinstance(event, Prefill):
            self._feed_prefill(state, event)
            lane.busy_until = event.t
        elif isinstance(event, Round):
            self._feed_round(lane, state, event)
            lane.busy_until = max(lane.busy_until, event.t1)
        else:
            self._feed_end(state, event)
            lane.turn = None

    def _feed_prefill(self, state: _TurnState, prefill: Prefill) -> None:
        if state.prefill is not None:
            self._problem(prefill, "a second Prefill")
            return
        state.prefill = prefill
        state.n_tokens = 1
        position = state.turn.reused_tokens
        for chunk in prefill.chunks:
            if chunk.start != position:
                self._problem(prefill, f"a prefill chunk starts at {chunk.start}, not at {position}")
            position = chunk.start + chunk.length
        if prefill.chunks and position != state.turn.prompt_tokens:
            self._problem(prefill, f"prefill ends at {position} of {state.turn.prompt_tokens} prompt tokens")
        if prefill.t < prefill.t0:
            self._problem(prefill, "token one was known before prefill began")

    def _feed_end(self, state: _TurnState, end: TurnEnd) -> None:
        if self._has_gaps:
            return
        if end.n_tokens != state.n_tokens:
            self._problem(end, f"the engine counted {end.n_tokens} tokens, the events hold {state.n_tokens}")
        if end.rounds != state.n_rounds:
            self._problem(end, f"the engine counted {end.rounds} rounds, the events hold {state.n_rounds}")
        limit = state.turn.max_new_tokens
        if limit and state.n_tokens > limit:
            self._problem(end, f"{state.n_tokens} tokens, more than the {limit} asked for")
        if limit and end.stop_reason == "length" and state.n_tokens != limit:
            self._problem(end, f"stopped for length at {state.n_tokens} of {limit} tokens")

    # --- rounds ---------------------------------------------------------------------------------------------

    def _feed_round(self, lane: _LaneState, state: _TurnState, round_: Round) -> None:
        self._n_rounds += 1
        if state.prefill is None:
            self._problem(round_, "a round before token one")
        gaps_allowed = self._has_gaps or len(self._lanes) > 1
        self._problems(round_, check_tiling(state.before, state.prefill, round_, gaps_allowed))
        if not self._has_gaps:
            self._problems(round_, check_index(state.before, round_))
        self._check_other_lanes(round_)
        self._check_alone(lane, state, round_)
        if not round_.discarded:
            self._check_after_kept(state, round_)
            state.n_tokens += len(round_.emitted)
            state.n_rounds += 1
            state.kept = round_
        state.before = round_

    def _check_other_lanes(self, round_: Round) -> None:
        """Lanes take turns, so a round's time, and thereby its lane's clock, holds none of another lane's."""
        for number, other in self._lanes.items():
            if number != round_.lane and other.busy_until > round_.t0:
                self._problem(
                    round_, f"starts {other.busy_until - round_.t0} ns before lane {number}'s turn was over"
                )

    def _check_alone(self, lane: _LaneState, state: _TurnState, round_: Round) -> None:
        miscounts = checks.check_counts(round_) + checks.check_tree(round_)
        self._problems(round_, miscounts)
        self._problems(round_, checks.check_branches(round_, state.lane))
        self._problems(round_, checks.check_spans(round_, state.lane))
        self._problems(round_, lane.streams.add(round_))
        if not round_.discarded and not miscounts:
            self._needing_ids(round_, "emitted tokens", lambda: checks.check_tokens(round_))
        if not round_.discarded:
            self._needing_ids(round_, "branch outcomes", lambda: checks.check_outcome(round_))

    def _check_after_kept(self, state: _TurnState, round_: Round) -> None:
        before = state.kept
        if state.before is not None and state.before.discarded:
            self._problem(round_, "follows a discarded round without being discarded")
        if before is None:
            return
        self._problems(before, checks.check_whole(before))
        if round_.index != before.index + 1:
            return
        self._problems(round_, checks.check_kv(before, round_))
        self._needing_ids(round_, "drafts after a hit", lambda: checks.check_successor(before, round_))
