"""The measurement behind `bench paired`: every lane decodes every prompt, in an order that rotates.

Lanes that are compared decode one prompt right after each other, so that what drifts (clocks, heat, other work) meets
them alike; who is first changes from prompt to prompt and from repeat to repeat. Before each request that counts the lane
decodes one token of another text, which empties its caches: every prompt is prefilled from its first token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from specmon.core.bench.prompts import BenchPrompt
from specmon.core.engine.messages import Request
from specmon.core.metrics.turn import TurnMetrics

Decode = Callable[[int, Request], TurnMetrics]
RINSE = Request(messages=(("user", "."),), max_new_tokens=1, raw=True)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One request that counts. `lane` is a place in the list of lanes, `place` the lane's turn among them."""

    lane: int
    prompt: str
    repeat: int
    place: int
    turn: TurnMetrics


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured: `n_lanes` lanes on each of `prompts`, `repeats` times."""

    n_lanes: int
    prompts: Sequence[BenchPrompt]
    repeats: int
    max_new_tokens: int

    @property
    def n_requests(self) -> int:
        return self.n_lanes * len(self.prompts) * self.repeats

    def order(self, repeat: int, prompt: int) -> list[int]:
        """Lanes in the order in which they decode prompt number `prompt` the `repeat`-th time.

        Each time another lane is first; after every lane was, the direction turns, so that a lane does not always follow
        the same one.
        """
        rounds, first = divmod(repeat + prompt, self.n_lanes)
        step = -1 if rounds % 2 else 1
        return [(first + step * i) % self.n_lanes for i in range(self.n_lanes)]


def ask(prompt: BenchPrompt, max_new_tokens: int) -> Request:
    """A greedy request with the model's chat template."""
    return Request(messages=(("user", prompt.text),), max_new_tokens=max_new_tokens)


def decode_cold(decode: Decode, lane: int, request: Request) -> TurnMetrics:
    """Decode `request` on `lane` with nothing of it in the caches."""
    decode(lane, RINSE)
    return decode(lane, request)


def measure(plan: Plan, decode: Decode) -> Iterator[Measured]:
    """Warm every lane up, then measure; each request is given out as soon as it is done."""
    for lane in range(plan.n_lanes):
        decode(lane, ask(plan.prompts[0], plan.max_new_tokens))
    for repeat in range(plan.repeats):
        for number, prompt in enumerate(plan.prompts):
            request = ask(prompt, plan.max_new_tokens)
            for place, lane in enumerate(plan.order(repeat, number)):
                turn = decode_cold(decode, lane, request)
                yield Measured(lane=lane, prompt=prompt.name, repeat=repeat, place=place, turn=turn)
