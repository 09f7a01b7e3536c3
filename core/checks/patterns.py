"""The agreement suite: what SD and SSD are put through on a user's own target, drafter and devices.

A pattern is one or more requests, decoded one after the other on a lane whose caches were emptied before. AR decodes the
same requests in the same order, and every token must be the same. Forced patterns have a scripted drafter, with the user's
draft model at work inside where there is one: each acceptance, hit and miss occurs, whatever the draft is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from specmon.core.decoders.check import MAX_DRAFT_LEN
from specmon.core.drafters.scripted import Step
from specmon.core.engine.messages import LaneConfig
from specmon.core.events import Decoder, Sampling
from specmon.core.models.tokenizer import Tokenizer

PROSE = "The ferry to the island leaves at seven, and in winter it leaves in the dark."
REPETITIVE = "one two three one two three one two three one two"
CODE = "def merge(left, right):\n    merged = []\n    while left and right:\n"
_LONG_TOKENS = 400  # more than a chunk of 256
CHAT = ("Write a story about a lighthouse.", "Go on.", "And then?")

GREEDY = Sampling()
SAMPLINGS = (
    Sampling(temperature=0.8),
    Sampling(temperature=0.8, top_k=20),
    Sampling(temperature=1.2, top_p=0.9),
    Sampling(temperature=0.7, top_k=50, top_p=0.95),
)
_WIDE, _GAPS = (3, 1, 1, 4, 2), (0, 3, 0, 2, 0)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request. `eos_at`: the first token from this place on that AR has not put before ends the turn.

    `stop_at`: so many characters of AR's text from there are a stop string. `goes_on`: a further message of the
    conversation before it, else a raw prompt. `steps`: what a scripted drafter proposes, round after round.
    """

    prompt: str = PROSE
    max_new_tokens: int = 24
    sampling: Sampling = GREEDY
    seed: int = 0
    eos_at: int | None = None
    stop_at: tuple[int, int] | None = None
    chat: bool = False
    goes_on: bool = False
    draft_len: int | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One line of the suite."""

    name: str
    asks: tuple[Ask, ...]


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A lane and the patterns it decodes. `scripted`: its drafter follows their steps."""

    config: LaneConfig
    scripted: bool
    patterns: tuple[Pattern, ...]


def long_prompt(tokenizer: Tokenizer, context_length: int) -> str:
    """A prompt of more than one chunk, or of half the context where that is less."""
    a_piece = len(tokenizer.encode(PROSE))
    return PROSE * max(1, min(_LONG_TOKENS, context_length // 2) // a_piece)


def suite(config: LaneConfig, long: str) -> list[Lane]:
    """Lanes for the target, drafter, recipe and devices of `config`, its draft_len K and its fan-out.

    Those of SSD are left out where `config` itself is of SD. Where it drafts trees its own drafter does, a script never.

    Args:
        long: a prompt of several chunks.
    """
    k = config.draft_len

    def lane(
        decoder: Decoder, patterns: Sequence[Pattern], *, scripted: bool = False, **changes: Any
    ) -> Lane:
        nodes = 0 if scripted else config.draft_nodes
        changed = msgspec.structs.replace(config, decoder=decoder, draft_nodes=nodes, **changes)
        return Lane(config=changed, scripted=scripted, patterns=tuple(patterns))

    single: dict[str, Any] = {"draft_len": MAX_DRAFT_LEN, "fan_out": (1,), "branch_budget": None}
    auto: dict[str, Any] = {"fan_out": (1,), "branch_budget": 16}
    own = _own(k, long)
    lanes = [
        lane("sd", [*_accepted(k), *_forced(k)], scripted=True, **single),
        lane("ssd", [*_hits(k), *_misses(k), *_forced(k)], scripted=True, **single),
        lane("ssd", [_ranks(k)], scripted=True, fan_out=_cycled(_WIDE, k), branch_budget=None),
        lane("ssd", [_without_branches(k)], scripted=True, fan_out=_cycled(_GAPS, k), branch_budget=None),
        lane("ssd", [_up_and_down(k)], scripted=True, **auto),
        lane("sd", own),
        lane("ssd", own),
        lane("ssd", own[:2], **(single | {"draft_len": k} if config.branch_budget else auto)),
    ]
    return lanes if config.decoder == "ssd" else [each for each in lanes if each.config.decoder == "sd"]


def _cycled(widths: Sequence[int], k: int) -> tuple[int, ...]:
    """For accepted_lens 0 … k; K 1 keeps the second one too."""
    return tuple(widths[n % len(widths)] for n in range(k + 1))


# --- forced: the drafter follows a script -------------------------------------------------------------------------


def _accepted(k: int) -> list[Pattern]:
    return [_repeating(f"{n} of {k} accepted", [Step(n, covered=False)], k) for n in range(k + 1)]


def _hits(k: int) -> list[Pattern]:
    return [_repeating(f"hits after {n} of {k} accepted", [Step(n, covered=True)], k) for n in range(k + 1)]


def _misses(k: int) -> list[Pattern]:
    return [
        _repeating(
            f"a miss after {n} of {k} accepted, then a hit",
            [Step(n, covered=False), Step(k // 2, covered=True)],
            k,
        )
        for n in range(k + 1)
    ]


def _forced(k: int) -> list[Pattern]:
    """What both decoders meet with a scripted drafter."""
    whole = (Step(k, covered=True),)
    mixed = (Step(k, covered=True), Step(k // 4, covered=False), Step(0, covered=True))
    base = Ask(draft_len=k, steps=mixed)
    return [
        _up_and_down(k),
        *(_other_draft_len(n) for n in (1, MAX_DRAFT_LEN) if n != k),
        *(
            Pattern(name=f"EOS as token {at}", asks=(replace(base, eos_at=at, steps=whole),))
            for at in range(k + 3)
        ),
        Pattern(
            name=f"stops after 1 … {k + 3} tokens",
            asks=tuple(replace(base, max_new_tokens=n) for n in range(1, k + 4)),
        ),
        Pattern(name="stop strings", asks=tuple(replace(base, stop_at=(at, 5)) for at in (4, 21))),
        Pattern(name="sampled", asks=_sampled(base)),
        Pattern(name="warm second turns", asks=_conversation(base)),
        Pattern(name="a prompt of one token", asks=(replace(base, prompt="x"),)),
    ]


def _up_and_down(k: int) -> Pattern:
    there = [Step(n, covered=n % 2 == 0) for n in range(k + 1)]
    back = [Step(n, covered=n % 2 == 1) for n in range(k, -1, -1)]
    steps = there + back
    tokens = min(1 + sum(step.accepted + 1 for step in steps), 64)
    return _repeating("accepted_len up and down, hits and misses", steps, k, tokens)


def _other_draft_len(n: int) -> Pattern:
    steps = [Step(n, covered=True), Step(0, covered=True), Step(n // 2, covered=False)]
    return _repeating(f"K {n}", steps, n, min(3 * n + 12, 48))


def _ranks(k: int) -> Pattern:
    steps = [Step(n, covered=True, rank=1 + n % 3) for n in range(k + 1)]
    return _repeating("hits by rank, several branches an accepted_len", steps, k)


def _without_branches(k: int) -> Pattern:
    steps = [Step(n, covered=True) for n in range(k + 1)]
    return _repeating("no branch for some accepted_lens", steps, k)


def _repeating(name: str, steps: Sequence[Step], k: int, tokens: int = 24) -> Pattern:
    return Pattern(name=name, asks=(Ask(draft_len=k, steps=tuple(steps), max_new_tokens=tokens),))


# --- with the user's own drafter ----------------------------------------------------------------------------------


def _own(k: int, long: str) -> list[Pattern]:
    base = Ask()
    return [
        Pattern(name="prose", asks=(base,)),
        Pattern(name="warm second turns", asks=_conversation(base)),
        Pattern(name="code", asks=(replace(base, prompt=CODE),)),
        Pattern(name="a repetitive prompt", asks=(replace(base, prompt=REPETITIVE),)),
        Pattern(name="a prompt of several chunks", asks=(replace(base, prompt=long),)),
        Pattern(name="a prompt of one token", asks=(replace(base, prompt="x"),)),
        Pattern(name="sampled", asks=_sampled(base)),
        Pattern(
            name="EOS and stop string", asks=(replace(base, eos_at=k + 1), replace(base, stop_at=(21, 5)))
        ),
    ]


def _sampled(base: Ask) -> tuple[Ask, ...]:
    return tuple(
        replace(base, sampling=sampling, seed=seed, max_new_tokens=12)
        for seed, sampling in enumerate(SAMPLINGS, start=11)
    )


def _conversation(base: Ask) -> tuple[Ask, ...]:
    return tuple(
        replace(base, prompt=text, chat=True, goes_on=n > 0, max_new_tokens=12) for n, text in enumerate(CHAT)
    )
