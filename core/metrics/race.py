"""Lanes side by side: standings at equal lane clock, whether the outputs agree, and what that lets one say.

A lane's clock is the sum of its own rounds. A ratio exists only between lanes whose tokens are all equal,
under one recipe, on one prompt and from one history; until both lanes are finished it is provisional.
The lane that others are compared with, the reference, is the first that does not end early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specmon.core.events import Lane, TurnEnd
from specmon.core.metrics.acceptance import ratio
from specmon.core.metrics.bandwidth import DeviceBandwidth, turn_bandwidths
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.spans import intersect, measure, merge
from specmon.core.metrics.turn import NS_PER_MS, TurnMetrics

DRAIN_LIMIT = 0.02  # share of a lane's clock above which its turns are too short

#: By lane: in what it differs from the reference besides the decoder ("prompt"), which forbids to compare them.
Unlike = Mapping[int, tuple[str, ...]]

DIFFERENT_RECIPE = "different recipe"  # a verdict that still lets times be set side by side


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One lane's output against the reference's.

    `equal`: True or False as far as both have got, None where they cannot be compared, as `output` then says.
    `first_difference` is a token's index from 0. `ratio` says how much faster the lane is, if one is due.
    """

    equal: bool | None
    first_difference: int | None
    ratio: float | None
    provisional: bool
    output: str


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One lane's row. Times are means a round in ms; `draft_ms` is the drafting that is exposed.

    `clock_ns` starts with `prefill_ns`, which is 0 where the race leaves prefill apart. `unlike`: see `Unlike`.
    """

    lane: int
    letter: str
    label: str
    turn: TurnMetrics
    prefill_ns: int
    clock_ns: int
    n_tokens: int
    tokens_at_horizon: int
    finished: bool
    failed: bool
    verify_ms: float | None
    draft_ms: float | None
    other_ms: float | None
    bandwidths: list[DeviceBandwidth]
    drain_fraction: float | None
    verdict: Verdict
    unlike: tuple[str, ...] = ()

    @property
    def turns_too_short(self) -> bool:
        """Whether draining at the ends of the lane's turns took a share worth doubting the clock for."""
        return self.drain_fraction is not None and self.drain_fraction > DRAIN_LIMIT

    def tokens_at(self, clock_ns: int) -> int:
        """Tokens out when the lane's clock read `clock_ns`."""
        return 0 if clock_ns < self.prefill_ns else self.turn.tokens_at(clock_ns - self.prefill_ns)


@dataclass(frozen=True, kw_only=True)
class Race:
    """Rows in lane order; `ranking` holds their positions, most tokens at `horizon_ns` first.

    `reference` is the position of the row that others are compared with, None where every lane failed.
    `horizon_ns` is the lane clock that every lane still in the race has reached. Wall time is prefill apart:
    wall = the lanes' rounds + switching.
    """

    standings: list[Standing]
    ranking: list[int]
    reference: int | None
    horizon_ns: int
    wall_ns: int
    switching_ns: int

    @property
    def unlike(self) -> tuple[str, ...]:
        """In what any lane differs from the reference besides the decoder; recordings may."""
        return all_unlike(row.unlike for row in self.standings)

    @property
    def compared(self) -> list[Standing]:
        """The rows besides the reference's."""
        return [row for place, row in enumerate(self.standings) if place != self.reference]

    @property
    def reference_letter(self) -> str:
        """Which lane others are compared with; "A" where there is none."""
        return "A" if self.reference is None else self.standings[self.reference].letter


def all_unlike(differences: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What lanes differ in, each once."""
    return tuple(dict.fromkeys(what for lane in differences for what in lane))


def race_turns(ledger: Ledger, turn: int = -1) -> dict[int, TurnMetrics]:
    """The turns raced together, by lane: of those at position `turn` of their lanes, the ones of the newest number."""
    at_position = [
        lane.turns[turn] for lane in ledger.lanes.values() if -len(lane.turns) <= turn < len(lane.turns)
    ]
    number = max((metrics.turn.turn for metrics in at_position), default=0)
    raced = ((lane, ledger.lanes[lane].turn(number)) for lane in sorted(ledger.lanes))
    return {lane: metrics for lane, metrics in raced if metrics is not None}


def standings(
    ledger: Ledger, turn: int = -1, *, with_prefill: bool = False, unlike: Unlike | None = None
) -> Race:
    """The race as it stands; `with_prefill` lets each lane's clock start with its prefill.

    What was worked out for earlier rounds is kept in the ledger's turns: only new rounds are looked at.
    """
    turns = race_turns(ledger, turn)
    prefills = {number: (t.prefill_ns or 0) if with_prefill else 0 for number, t in turns.items()}
    horizon_ns = min((t.decode_ns + prefills[n] for n, t in turns.items() if not _failed(t)), default=0)
    verdicts = race_verdicts(turns, unlike or {})
    letters = {number: "ABCDEFGH"[i % 8] for i, number in enumerate(sorted(ledger.lanes))}
    labels = lane_labels(turns)
    rows = [
        _standing(
            ledger,
            number,
            letters[number],
            labels[number],
            metrics,
            verdicts[number],
            horizon_ns,
            prefills[number],
            (unlike or {}).get(number, ()),
        )
        for number, metrics in turns.items()
    ]
    reference = reference_lane({number: metrics.end for number, metrics in turns.items()})
    wall_ns = _wall_ns(list(turns.values()))
    return Race(
        standings=rows,
        ranking=sorted(range(len(rows)), key=lambda i: (rows[i].failed, -rows[i].tokens_at_horizon, i)),
        reference=None if reference is None else list(turns).index(reference),
        horizon_ns=horizon_ns,
        wall_ns=wall_ns,
        switching_ns=wall_ns - sum(t.decode_ns for t in turns.values()),
    )


def reference_lane(ends: Mapping[int, TurnEnd | None]) -> int | None:
    """The lane that others are compared with, of those that have a turn with such an end.

    It is the first that is whole or may become so, else the first that did not fail; None where every lane failed.
    """
    fit = [lane for lane, end in ends.items() if end is None or end.stop_reason != "error"]
    whole = [lane for lane in fit if (end := ends[lane]) is None or end.stop_reason != "cancelled"]
    return next(iter(whole or fit), None)


def race_verdicts(turns: Mapping[int, TurnMetrics], unlike: Unlike) -> dict[int, Verdict]:
    """Every lane's output against the reference's."""
    reference = reference_lane({number: turn.end for number, turn in turns.items()})
    if reference is None:
        return dict.fromkeys(turns, _incomparable("DNF"))
    apart = unlike.get(reference, ())
    return {
        number: compare_lanes(turns[reference], turn, unlike.get(number) or apart)
        for number, turn in turns.items()
    }


def _standing(
    ledger: Ledger,
    number: int,
    letter: str,
    label: str,
    turn: TurnMetrics,
    verdict: Verdict,
    horizon_ns: int,
    prefill_ns: int,
    unlike: tuple[str, ...],
) -> Standing:
    time = turn.time()
    parts = time.shares
    return Standing(
        lane=number,
        letter=letter,
        label=label,
        turn=turn,
        prefill_ns=prefill_ns,
        clock_ns=prefill_ns + turn.decode_ns,
        n_tokens=turn.n_tokens,
        tokens_at_horizon=turn.tokens_at(horizon_ns - prefill_ns) if horizon_ns >= prefill_ns else 0,
        finished=is_whole(turn),
        failed=_failed(turn),
        verify_ms=ratio(parts.verify_ns, NS_PER_MS * turn.n_rounds),
        draft_ms=ratio(parts.draft_ns, NS_PER_MS * turn.n_rounds),
        other_ms=ratio(parts.accept_ns + parts.wait_ns + parts.other_ns, NS_PER_MS * turn.n_rounds),
        bandwidths=turn_bandwidths(turn, ledger.telemetry),
        drain_fraction=ratio(time.drain_ns, turn.decode_ns),
        verdict=verdict,
        unlike=unlike,
    )


def lane_labels(turns: Mapping[int, TurnMetrics]) -> dict[int, str]:
    """Each lane's decoder with what tells it from others: drafter, recipe, target; devices where all else is the same.

    "SD K4 eagle3": a drafter is named by its kind if that tells the lanes' drafters apart.
    """
    lanes = [turn.lane for turn in turns.values()]
    labels = [decoder_label(turn) for turn in turns.values()]
    for words in (_drafters(lanes), [lane.recipe for lane in lanes], [lane.target for lane in lanes]):
        if len({word for word in words if word}) > 1:
            labels = [f"{label} {word}" if word else label for label, word in zip(labels, words, strict=True)]
    places = {(label, lane.devices) for label, lane in zip(labels, lanes, strict=True)}
    apart = Counter(label for label, _ in places)
    labels = [
        f"{label} {'+'.join(lane.devices)}" if apart[label] > 1 else label
        for label, lane in zip(labels, lanes, strict=True)
    ]
    return dict(zip(turns, labels, strict=True))


def _drafters(lanes: Sequence[Lane]) -> list[str | None]:
    """Names of the lanes' drafters; none for a scripted one, which its decoder's label names."""
    named = [lane if lane.drafter_kind != "scripted" else None for lane in lanes]
    names = [lane.drafter if lane else None for lane in named]
    kinds = [lane.drafter_kind.replace("_", " ") if lane and lane.drafter_kind else None for lane in named]
    return kinds if len(set(kinds)) >= len(set(names)) else names


def decoder_label(turn: TurnMetrics, *, fan_out: bool = True) -> str:
    """ "AR", "SD K4"; with `fan_out` also "SSD K4 fan 5·4·3·2·2", "SSD K4 fan auto:16".

    A scripted drafter is always named, "SSD K4 scripted α=0.78": its acceptance and hits are chosen.
    """
    if turn.lane.decoder == "ar":
        return "AR"
    label = f"{turn.lane.decoder.upper()} K{turn.turn.draft_len}"
    if turn.turn.draft_nodes:
        label += f" tree {turn.turn.draft_nodes}"
    words = turn.turn.fan_out_words
    if fan_out and words:
        label += f" fan {words}"
    if turn.lane.drafter_kind == "scripted" and turn.lane.drafter:
        label += f" {turn.lane.drafter.partition(' (')[0]}"
    return label


def compare_lanes(reference: TurnMetrics, other: TurnMetrics, unlike: tuple[str, ...] = ()) -> Verdict:
    """Compare a lane's output with the reference's; `unlike` forbids it."""
    if other is reference:
        return Verdict(equal=True, first_difference=None, ratio=1.0, provisional=False, output="reference")
    reason = f"different {unlike[0]}" if unlike else _not_comparable(reference, other)
    if reason is not None:
        return _incomparable(reason)
    both_whole = is_whole(reference) and is_whole(other)
    difference, n_common = first_difference(reference.tokens(), other.tokens(), both_whole)
    if difference is not None:
        output = f"differs at {difference}"
        return Verdict(equal=False, first_difference=difference, ratio=None, provisional=False, output=output)
    return Verdict(
        equal=True,
        first_difference=None,
        ratio=_speed_ratio(reference, other),
        provisional=not both_whole,
        output="equal" if both_whole else f"equal to {n_common}",
    )


def _incomparable(reason: str) -> Verdict:
    return Verdict(equal=None, first_difference=None, ratio=None, provisional=False, output=reason)


def _not_comparable(reference: TurnMetrics, other: TurnMetrics) -> str | None:
    if _failed(other) or _failed(reference):
        return "DNF" if _failed(other) else "the first lane failed"
    if reference.lane.target != other.lane.target:
        return "different target"
    if (reference.lane.recipe, reference.lane.backend) != (other.lane.recipe, other.lane.backend):
        return DIFFERENT_RECIPE
    if reference.turn.sampling.temperature > 0 or other.turn.sampling.temperature > 0:
        return "equality n/a"
    if reference.turn.reused_tokens != other.turn.reused_tokens:
        return "equality n/a: different history"
    if None in reference.tokens() or None in other.tokens():
        return "not checkable: redacted"
    return None


def first_difference(a: Sequence[int | None], b: Sequence[int | None], whole: bool) -> tuple[int | None, int]:
    """Index of the first token that differs and how many both have; whole outputs differ by length too."""
    n_common = min(len(a), len(b))
    if a[:n_common] != b[:n_common]:
        return next(i for i in range(n_common) if a[i] != b[i]), n_common
    return (n_common if whole and len(a) != len(b) else None), n_common


def _speed_ratio(reference: TurnMetrics, other: TurnMetrics) -> float | None:
    """ms/token of the reference ÷ this lane's, in one division of integers."""
    reference_tokens, other_tokens = reference.decoded_tokens, other.decoded_tokens
    return ratio(reference.decode_ns * other_tokens, other.decode_ns * reference_tokens)


def is_whole(turn: TurnMetrics) -> bool:
    """Whether the lane finished; a cancelled one did not."""
    return turn.end is not None and turn.end.stop_reason not in ("cancelled", "error")


def _failed(turn: TurnMetrics) -> bool:
    return turn.end is not None and turn.end.stop_reason == "error"


def _wall_ns(turns: Sequence[TurnMetrics]) -> int:
    """From the first round of any lane to the last, without the prefills in between."""
    rounds = [r for turn in turns for r in (*turn.rounds[:1], *turn.rounds[-1:])]
    if not rounds:
        return 0
    whole = [(min(r.t0 for r in rounds), max(r.t1 for r in rounds))]
    prefills = merge((t.prefill.t0, t.prefill.t) for t in turns if t.prefill is not None)
    return measure(whole) - measure(intersect(whole, prefills))
