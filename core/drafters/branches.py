"""SSD branches with a model: which outcomes to prepare for, and their proposals drafted as one batch.

Each branch is a row; all share the prefix on the main line and write to scratch slots of their own after it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import torch

from specmon.core.drafters.base import Proposal
from specmon.core.drafters.line import Likely, Line, Lines, Stepper, best_tokens
from specmon.core.models.passes import MAX_ROWS, BranchStart, Pick
from specmon.core.models.placement import branch_step

Key = tuple[int, int]


class Guess(msgspec.Struct, frozen=True):
    """An outcome to prepare for: `bonus` is the draft's `rank`-th guess after `accepted_len` acceptances."""

    accepted_len: int
    bonus: int
    rank: int
    probability: float

    @property
    def key(self) -> Key:
        return self.accepted_len, self.bonus


def likely_outcomes(likely: Likely, line: Line, widths: tuple[int, ...]) -> list[Guess]:
    """For each accepted_len the draft's best tokens other than the one it proposed there, as many as its width."""
    guesses = []
    for accepted_len, width in enumerate(widths):
        proposed = line.tokens[accepted_len] if accepted_len < len(line.tokens) else None
        ranked = zip(likely.tokens[accepted_len], likely.probs[accepted_len], strict=True)
        kept = [(token, prob) for token, prob in ranked if token != proposed][:width]
        guesses += [
            Guess(accepted_len, token, rank, prob) for rank, (token, prob) in enumerate(kept, start=1)
        ]
    return guesses


def picked(line: Line, widths: tuple[int, ...], *, n_context: int, lag: int, draft_len: int) -> list[Pick]:
    """The branches of `likely_outcomes` in its order, before it is known which tokens those are."""
    places = [(a, rank) for a, width in enumerate(widths) for rank in range(1, width + 1)]
    slots = scratch_slots(line, len(places), n_context=n_context, lag=lag, draft_len=draft_len)
    return [
        Pick(
            place=a,
            rank=rank,
            proposed=line.tokens[a] if a < len(line.tokens) else -1,
            prefix=n_context + a - lag,
            slots=own,
        )
        for (a, rank), own in zip(places, slots, strict=True)
    ]


def scratch_slots(
    line: Line, n_branches: int, *, n_context: int, lag: int, draft_len: int
) -> list[list[int]]:
    """Slots of each branch's own, after the line's."""
    base = n_context + len(line.tokens) - lag
    return [list(range(base + j * draft_len, base + (j + 1) * draft_len)) for j in range(n_branches)]


class Drafting(NamedTuple):
    """What drafting a batch of branches whole was: passes, the KV positions they read in all; the rest as in `Line`."""

    passes: int
    kv_positions: int
    launches: int | None
    ran: tuple[int, int] | None


class BranchBatch:
    """Branches drafted together, step by step.

    Args:
        n_context: confirmed tokens; `line` is the proposal they branch off.
    """

    def __init__(
        self, stepper: Stepper, line: Line, guesses: list[Guess], *, n_context: int, draft_len: int
    ) -> None:
        self._stepper = stepper
        self._device = line.logits[0].device
        self._keys = [guess.key for guess in guesses]
        self._first = [n_context + guess.accepted_len - stepper.lag for guess in guesses]
        self._slots = scratch_slots(
            line, len(guesses), n_context=n_context, lag=stepper.lag, draft_len=draft_len
        )
        self._ids = [guess.bonus for guess in guesses]
        self._carries = [line.carries[guess.accepted_len] for guess in guesses]
        self._lines: dict[Key, Line] = {}  # drafted step by step
        self._whole: dict[Key, tuple[Lines, int]] = {}  # drafted at once
        self._own = dict(zip(self._keys, self._slots, strict=True))

    def proposals(self) -> dict[Key, Proposal]:
        """Those that are finished."""
        if self._whole:
            return {key: lines.proposal(j) for key, (lines, j) in self._whole.items()}
        return {key: self._lines[key].proposal() for key in self._keys}

    def adopted(self, key: Key) -> tuple[Line, list[int]]:
        """A finished branch to go on from, and the scratch slots it has filled."""
        if self._whole:
            lines, j = self._whole[key]
            return lines.line(j), self._own[key]
        return self._lines[key], self._own[key]

    def keep_only(self, key: Key) -> bool:
        """Go on with one branch alone; False where there is none for `key`."""
        if key not in self._keys:
            return False
        j = self._keys.index(key)
        self._keys, self._first, self._slots = [key], [self._first[j]], [self._slots[j]]
        self._ids = [self._ids[j]]
        self._carries = [self._carries[j]]
        return True

    def at_once(self, count: int, lines: Lines | None = None) -> list[Drafting] | None:
        """Draft all branches whole, 16 at a time; None where the stepper goes step by step.

        `lines`: all of them, where they are drafted already. Returns: what each batch of 16 took.
        """
        if lines is not None:
            return [self._take(lines, self._keys, self._first, count)]
        batches: list[Drafting] = []
        for i in range(0, len(self._keys), MAX_ROWS):
            keys, firsts = self._keys[i : i + MAX_ROWS], self._first[i : i + MAX_ROWS]
            rows = zip(firsts, self._ids[i : i + MAX_ROWS], self._slots[i : i + MAX_ROWS], strict=True)
            starts = [BranchStart(prefix=first, token=token, slots=slots) for first, token, slots in rows]
            carries = self._carries[i : i + MAX_ROWS]
            drafted = self._stepper.branches(starts, carries, count, batch=i // MAX_ROWS)
            if drafted is None:
                return None
            batches.append(self._take(drafted, keys, firsts, count))
        return batches

    def _take(self, lines: Lines, keys: list[Key], firsts: list[int], count: int) -> Drafting:
        self._whole |= {key: (lines, j) for j, key in enumerate(keys)}
        read = sum(max(firsts) + len(keys) * (step + 1) for step in range(count))
        return Drafting(count, read, lines.launches, lines.ran)

    def step(self, step: int) -> int:
        """Feed every row's last token (the bonus at step 0) and propose its next one.

        Returns: KV positions read, the shared prefix counted once.
        """
        if step == 0:
            source: Literal["predicted"] | None = "predicted" if self._stepper.corrects else None
            self._lines = {key: Line(source=source) for key in self._keys}
        ids = torch.tensor(self._ids, device=self._device)
        own = [carry for carry in self._carries if carry is not None]
        logits, carry = self._stepper.step(
            ids,
            torch.cat(own) if own else None,
            branch_step(self._first, self._slots, step, self._device),
        )
        self._carries = [None] * len(self._keys) if carry is None else list(torch.split(carry, 1))
        tokens, probs = best_tokens(self._stepper, logits, 1)
        for j, key in enumerate(self._keys):
            line = self._lines[key]
            line.logits.append(logits[j : j + 1])
            line.carries.append(self._carries[j])
            line.fed += step > 0
            line.propose(tokens[j][0], probs[j][0])
        self._ids = [row[0] for row in tokens]
        return max(self._first) + len(self._keys) * (step + 1)
