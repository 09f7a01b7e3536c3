"""Lanes for the agreement suite: decode turns, collect what was emitted, hold every stream against the validator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from specmon.core.decoders.lane import DecodeLane
from specmon.core.drafters.base import Drafter
from specmon.core.drafters.link import DraftLink, InlineLink, WorkerLink
from specmon.core.drafters.registry import DrafterSpec, build_drafter
from specmon.core.drafters.scripted import PatternPlan, ScriptedDrafter, Step
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import Event, Header, Prefill, Round, Turn, TurnEnd
from specmon.core.metrics.validate import Validator
from specmon.core.models.pool import ModelPool, unwatched

_ZERO_NS = time.monotonic_ns()


def clock() -> int:
    return time.monotonic_ns() - _ZERO_NS


def never() -> bool:
    return False


@dataclass(frozen=True)
class Decoded:
    """One finished turn."""

    events: tuple[Event, ...]

    def _all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def turn(self) -> Turn:
        return self._all(Turn)[0]  # type: ignore[no-any-return]

    @property
    def prefill(self) -> Prefill:
        return self._all(Prefill)[0]  # type: ignore[no-any-return]

    @property
    def rounds(self) -> list[Round]:
        return self._all(Round)

    @property
    def end(self) -> TurnEnd:
        return self._all(TurnEnd)[0]  # type: ignore[no-any-return]

    @property
    def tokens(self) -> list[int]:
        return [self.prefill.token_one, *(t for r in self.rounds for t in r.emitted)]  # type: ignore[list-item]

    @property
    def text(self) -> str:
        return "".join([self.prefill.text, *(s for r in self.rounds for s in r.text), self.end.text])

    @property
    def accepted(self) -> list[int]:
        return [r.accepted_len for r in self.rounds]


def assert_valid(events: Iterable[Event]) -> None:
    """Hold a whole stream against the glossary's identities."""
    validator = Validator()
    for event in events:
        validator.feed(event)  # type: ignore[arg-type]
    report = validator.finish()
    assert report.problems == ()


class BenchLane:
    """A lane whose whole stream is checked after every turn."""

    def __init__(self, lane: DecodeLane) -> None:
        self.lane = lane
        self.stream: list[Event] = [Header(t=0), lane.describe(0, clock())]
        self._turns = 0

    def decode(
        self,
        prompt: str | Sequence[tuple[str, str]] = "the cat sat",
        *,
        cancelled: Callable[[], bool] = never,
        **request: Any,
    ) -> Decoded:
        """Decode one turn: a user's message, or a whole conversation."""
        messages = (("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        asked = Request(messages=messages, **{"max_new_tokens": 24, **request})
        events = tuple(self.lane.generate(asked, lane=0, turn=self._turns, cancelled=cancelled))
        self._turns += 1
        self.stream += events
        assert_valid(self.stream)
        return Decoded(events)


class Bench:
    """Makes lanes that share one pool, and closes them."""

    def __init__(self, cache_dir: Path | None) -> None:
        self.pool = ModelPool(cache_dir)
        self._open: list[DecodeLane] = []

    def raw_lane(
        self, target: Path | str, decoder: str, *, link: DraftLink | None = None, **config: Any
    ) -> DecodeLane:
        tick = config.pop("clock", clock)
        progress = config.pop("progress", unwatched)
        settings = {"draft": "ngram", "recipe": "fp32", "devices": "cpu:0", **config}
        made = DecodeLane(
            LaneConfig(decoder=decoder, target=str(target), **settings),
            pool=self.pool,
            progress=progress,
            clock=tick,
            link=link,
        )
        self._open.append(made)
        return made

    def lane(self, target: Path | str, decoder: str = "ar", **config: Any) -> BenchLane:
        return BenchLane(self.raw_lane(target, decoder, **config))

    def scripted(
        self, target: Path, decoder: str, steps: Sequence[Step], vocab_size: int, **config: Any
    ) -> BenchLane:
        """A lane whose drafter follows `steps`, on the target's device or in a worker on the second one."""
        arguments = (PatternPlan(steps), vocab_size)
        _, _, second = config.get("devices", "cpu:0").partition(",")
        link: DraftLink
        if second:
            build = partial(ScriptedDrafter, label="scripted")
            link = WorkerLink(build, arguments, device=second, core=None, clock=clock)
        else:
            inner = self.drafter(target, config.pop("inner")) if "inner" in config else None
            link = InlineLink(ScriptedDrafter(*arguments, label="scripted", inner=inner), clock)
        return self.lane(target, decoder, link=link, **config)

    def drafter(self, target: Path, draft: Path, *, n_branches: int = 16, draft_len: int = 4) -> Drafter:
        """A drafter by itself."""
        with torch.inference_mode():
            return build_drafter(
                DrafterSpec(
                    name=str(draft),
                    target=str(target),
                    recipe="fp32",
                    device="cpu:0",
                    draft_len=draft_len,
                    n_branches=n_branches,
                    cache_dir=self.pool.cache_dir,
                )
            )

    def close(self) -> None:
        for lane in self._open:
            lane.close()
        self._open.clear()
