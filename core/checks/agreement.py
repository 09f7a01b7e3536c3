"""`check agreement`: SD and SSD against AR, on a user's own target, drafter, recipe and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
import torch

from specmon.core.checks.decoded import Decoded, decoded, difference, off_script
from specmon.core.checks.patterns import Ask, Lane, Pattern
from specmon.core.checks.scripts import build_turn_by_turn
from specmon.core.decoders.lane import DecodeLane
from specmon.core.decoders.setup import drafter_spec
from specmon.core.drafters.link import DraftLink, InlineLink, WorkerLink
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import Decoder, Header
from specmon.core.metrics.validate import Validator
from specmon.core.models.pool import ModelPool, unwatched

if TYPE_CHECKING:
    from specmon.core.events import AnyEvent


class PatternResult(msgspec.Struct, frozen=True, kw_only=True):
    """One pattern on one lane. `hits` is None for SD. `fault`: what is not as AR has it, None where all is."""

    decoder: Decoder
    draft_len: int
    fan_out: str | None
    scripted: bool
    pattern: str
    n_tokens: int
    rounds: int
    hits: int | None
    fault: str | None
    draft_nodes: int = 0

    @property
    def lane(self) -> str:
        """ "SSD K4 fan 1, scripted" or "SD K4 tree 9"."""
        fan = f" fan {self.fan_out}" if self.fan_out else ""
        tree = f" tree {self.draft_nodes}" if self.draft_nodes else ""
        return f"{self.decoder.upper()} K{self.draft_len}{fan}{tree}{', scripted' if self.scripted else ''}"


class Agreement:
    """Runs the suite in this process.

    Args:
        config: its `devices` are those of this machine, by name.
        clock: ns, monotonic and the same in every process. cores: the CPU core of each "cpu:N".
    """

    def __init__(
        self, config: LaneConfig, *, pool: ModelPool, clock: Callable[[], int], cores: Mapping[str, int]
    ) -> None:
        self._config, self._pool, self._clock, self._cores = config, pool, clock, cores
        self._devices = tuple(dict.fromkeys(config.devices.split(",")))
        self._ar_turns: dict[tuple[Ask, ...], list[tuple[Request, Decoded]]] = {}
        self._ar_free: dict[Ask, Decoded] = {}

    def run(self, lanes: Sequence[Lane]) -> Iterator[PatternResult]:
        """Decode every pattern of every lane; each result is given out as it is there."""
        ar = self._open(msgspec.structs.replace(self._config, decoder="ar"))
        try:
            for lane in lanes:
                opened = self._open(lane.config, self._scripted(lane) if lane.scripted else None)
                try:
                    for pattern in lane.patterns:
                        yield self._check(opened, ar, lane, pattern)
                finally:
                    opened.close()
        finally:
            ar.close()

    def _open(self, config: LaneConfig, link: DraftLink | None = None) -> DecodeLane:
        return DecodeLane(
            config, pool=self._pool, progress=unwatched, clock=self._clock, cores=self._cores, link=link
        )

    def _scripted(self, lane: Lane) -> DraftLink:
        """A drafter that follows the patterns of `lane`, where the user's would be."""
        device = self._devices[-1]
        spec = drafter_spec(lane.config, device, self._pool.cache_dir)
        arguments = (spec, [ask.steps for pattern in lane.patterns for ask in pattern.asks])
        if len(self._devices) == 1:
            with torch.inference_mode():
                return InlineLink(build_turn_by_turn(*arguments), self._clock)
        return WorkerLink(
            build_turn_by_turn,
            arguments,
            device=device,
            core=self._cores.get(device),
            clock=self._clock,
            progress=unwatched,
        )

    # --- one pattern -------------------------------------------------------------------------------------------

    def _check(self, opened: DecodeLane, ar: DecodeLane, lane: Lane, pattern: Pattern) -> PatternResult:
        expected = self._expected(ar, pattern)
        requests = [
            msgspec.structs.replace(request, draft_len=ask.draft_len)
            for ask, (request, _) in zip(pattern.asks, expected, strict=True)
        ]
        found, problem = _decode(opened, requests)
        fault = problem
        for number, (ask, turn, (_, truth)) in enumerate(zip(pattern.asks, found, expected, strict=True)):
            wrong = difference(turn, truth, self._piece)
            if wrong is None and lane.scripted:
                wrong = off_script(turn, ask.steps)
            if wrong is not None:
                fault = wrong if len(found) == 1 else f"turn {number + 1}, {wrong}"
                break
        ssd = lane.config.decoder == "ssd"
        return PatternResult(
            decoder=lane.config.decoder,
            draft_len=pattern.asks[0].draft_len or lane.config.draft_len,
            fan_out=lane.config.fan_out_words if ssd else None,
            scripted=lane.scripted,
            pattern=pattern.name,
            n_tokens=sum(len(turn.tokens) for turn in found),
            rounds=sum(len(turn.rounds) for turn in found),
            hits=sum(turn.hits for turn in found) if ssd else None,
            fault=fault,
            draft_nodes=lane.config.draft_nodes,
        )

    def _expected(self, ar: DecodeLane, pattern: Pattern) -> list[tuple[Request, Decoded]]:
        """The requests of `pattern`, and what AR decodes for each, one after the other."""
        asks = tuple(replace(ask, steps=(), draft_len=None) for ask in pattern.asks)
        if asks not in self._ar_turns:
            free = [self._free(ar, ask) for ask in asks]
            ar.forget()
            turns: list[tuple[Request, Decoded]] = []
            for ask, undisturbed in zip(asks, free, strict=True):
                request = _request(ask, undisturbed, turns[-1] if ask.goes_on else None)
                turns.append((request, _turn(ar, request)))
            self._ar_turns[asks] = turns
        return self._ar_turns[asks]

    def _free(self, ar: DecodeLane, ask: Ask) -> Decoded | None:
        """What AR decodes where nothing is to end the turn early; None where nothing is."""
        if ask.eos_at is None and ask.stop_at is None:
            return None
        plain = replace(ask, eos_at=None, stop_at=None)
        if plain not in self._ar_free:
            ar.forget()
            self._ar_free[plain] = _turn(ar, _request(plain, None, None))
        return self._ar_free[plain]

    def _piece(self, token: int) -> str:
        config = self._config
        loaded = self._pool.target(config.target, config.recipe, self._devices[0], unwatched, config.backend)
        return loaded.tokenizer.piece(token)


def _request(ask: Ask, free: Decoded | None, before: tuple[Request, Decoded] | None) -> Request:
    messages: tuple[tuple[str, str], ...] = (("user", ask.prompt),)
    if before is not None:
        request, answer = before
        messages = (*request.messages, ("assistant", answer.text), *messages)
    eos_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    if free is not None and ask.eos_at is not None:
        new = (t for i, t in enumerate(free.tokens) if i >= ask.eos_at and t not in free.tokens[:i])
        eos_ids = tuple(islice(new, 1))
    if free is not None and ask.stop_at is not None:
        first, length = ask.stop_at
        stop_strings = tuple(text for text in (free.text[first : first + length],) if text)
    return Request(
        messages=messages,
        max_new_tokens=ask.max_new_tokens,
        sampling=ask.sampling,
        seed=ask.seed,
        stop_strings=stop_strings,
        raw=not ask.chat,
        eos_ids=eos_ids,
    )


def _turn(lane: DecodeLane, request: Request) -> Decoded:
    return decoded(lane.generate(request, lane=0, turn=0, cancelled=lambda: False))


def _decode(lane: DecodeLane, requests: Sequence[Request]) -> tuple[list[Decoded], str | None]:
    """Decode requests from an empty cache; also the first identity that their events break, in words."""
    validator = Validator()
    validator.feed(Header(t=0))
    validator.feed(lane.describe(0, lane.now()))
    lane.forget()
    found = []
    for turn, request in enumerate(requests):
        events = tuple(lane.generate(request, lane=0, turn=turn, cancelled=lambda: False))
        for event in events:
            validator.feed(cast("AnyEvent", event))
        found.append(decoded(events))
    problems = validator.finish().problems
    return found, f"its events break an identity: {problems[0]}" if problems else None
