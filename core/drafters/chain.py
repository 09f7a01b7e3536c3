"""Chain drafting with a model: K greedy steps, and branches as one batch over the shared prefix.

The model behind it (an independent draft model or an EAGLE-3 head) is a `Stepper`. Its KV main line holds the confirmed
context and the last proposal; branches write to scratch slots after it and are moved down when adopted, so a rejection
only moves a cursor and a hit copies at most K slots.

A proposal d_1 … d_K takes K steps; the step that feeds d_K, whose logits guess the bonus after K acceptances, is the first
thing `prepare` does. Shapes: R rows, V vocabulary, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from specmon.core.drafters.base import Arrived, DrafterInfo, Outcome, Prepared, Proposal, Work
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Placement, Rows, Scattered, branch_visibility


class Stepper(Protocol):
    """A model that is fed tokens and says what may come next.

    The token at position p has slot p - `lag`: an EAGLE-3 head pairs it with the feature at p-1 (lag 1, and token 0 has no
    slot). `corrects`: confirmed tokens must be fed again once the target's features are known.
    A carry is what one step hands to the next: EAGLE's hidden state [R, D], None for a draft model.
    """

    info: DrafterInfo
    kv: KvCache
    lag: int
    corrects: bool

    def feed(self, tokens: list[int], first: int, features_ND: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Append confirmed tokens at positions first …; logits [1, V] after the last one, and its carry [1, D]."""
        ...

    def step(
        self, ids_R: Tensor, carry_RD: Tensor | None, placement: Placement
    ) -> tuple[Tensor, Tensor | None]:
        """Feed one proposed token in each of R rows; logits [R, V] and carries [R, D]."""
        ...

    def token_ids(self, indices: Tensor) -> Tensor:
        """Target token ids of vocabulary indices (an EAGLE-3 head has a vocabulary of its own)."""
        ...


@dataclass
class _Line:
    """A proposal with what is needed to go on from any of its tokens.

    logits[i] and carries[i] are those after i proposed tokens were fed; `fed` counts the proposed tokens with a slot.
    """

    tokens: list[int] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    carries: list[Tensor | None] = field(default_factory=list)
    fed: int = 0
    source: Literal["real", "predicted"] | None = None

    def proposal(self) -> Proposal:
        return Proposal(tokens=tuple(self.tokens), probs=tuple(self.probs), features=self.source)


@dataclass(frozen=True)
class _Guess:
    accepted_len: int
    bonus: int
    rank: int
    probability: float

    @property
    def key(self) -> tuple[int, int]:
        return self.accepted_len, self.bonus


class ChainDrafter:
    """Greedy chain drafts and SSD branches with a `Stepper`."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.info = stepper.info
        self._device = stepper.kv.keys(0).device
        self._context: list[int] = []
        self._valid = 0  # positions below this are fed from confirmed tokens (and real features)
        self._features: Tensor | None = None  # real features from position _valid - lag on, not fed yet
        self._line = _Line()
        self._branch_lines: dict[tuple[int, int], tuple[_Line, list[int]]] = {}
        self._work = Work()

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        unfed, unfed_from = self._features, self._valid - self.stepper.lag
        same = _common_prefix(self._context[: self._valid], tokens)
        self._valid = max(min(same, len(tokens) - 1), self.stepper.lag)
        self._context = list(tokens)
        self._line, self._branch_lines = _Line(), {}
        self._features = None
        if features_NF is not None:
            self._features = self._join_features(unfed, unfed_from, features_NF, first)
        if self._valid + 1 < len(tokens):
            self._feed_confirmed(len(tokens) - 1)

    def draft(self, draft_len: int) -> Proposal:
        logits, carry = self._feed_confirmed()
        line = _Line(logits=[logits], carries=[carry], source="real" if self.stepper.corrects else None)
        for i in range(draft_len):
            self._propose(line, line.logits[-1])
            if i + 1 < draft_len:
                self._step_line(line)
        self._line, self._branch_lines = line, {}
        return line.proposal()

    def prepare(
        self, fan_out: tuple[int, ...], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        line = self._line
        if self._valid < len(self._context):  # an adopted branch was drafted from predicted features
            line.logits[0], line.carries[0] = self._feed_confirmed()
        if len(line.logits) == len(line.tokens):
            self._step_line(line)
        if arrived() is not None:
            return []
        guesses = self._guesses(fan_out)
        return self._draft_branches(guesses, draft_len, clock, arrived) if guesses else []

    def commit(self, outcome: Outcome) -> None:
        self._confirm(outcome)
        self._line, self._branch_lines = _Line(), {}

    def adopt(self, outcome: Outcome, branch: Prepared) -> None:
        line, slots = self._branch_lines[branch.key]
        first = len(self._context) + outcome.accepted_len - self.stepper.lag
        self._confirm(outcome)
        if not self.stepper.corrects:
            self._valid = len(self._context)
        self.stepper.kv.move(torch.tensor(slots, device=self._device), first)
        self._line, self._branch_lines = line, {}

    def take_work(self) -> Work:
        work, self._work = self._work, Work()
        return work

    def _join_features(self, unfed: Tensor | None, unfed_from: int, new: Tensor, first: int) -> Tensor:
        """Features from the first slot that is to be fed: those the last turn left unfed, then the new ones."""
        start = self._valid - self.stepper.lag
        if first <= start:
            return new[start - first :]
        if unfed is None or unfed_from != start or len(unfed) < first - start:
            raise ValueError(f"features start at {first}, but positions from {start} lack theirs")
        return torch.cat([unfed[: first - start], new])

    # --- one line ----------------------------------------------------------------------------------------------

    def _confirm(self, outcome: Outcome) -> None:
        """The accepted tokens and the bonus join the context; accepted tokens keep their slots where they are good."""
        if not self.stepper.corrects and self._valid == len(self._context):
            fed = self._line.tokens[: self._line.fed]
            self._valid += _common_prefix(fed, list(outcome.accepted))
        self._context += [*outcome.accepted, outcome.bonus]
        new = outcome.features_AF
        if new is not None:
            left = self._features
            self._features = new if left is None or not len(left) else torch.cat([left, new])

    def _feed_confirmed(self, end: int | None = None) -> tuple[Tensor, Tensor | None]:
        """Feed the confirmed tokens that have no good slots yet, up to position `end`."""
        tokens = self._context[self._valid : end]
        features = None
        if self._features is not None:
            features, self._features = self._features[: len(tokens)], self._features[len(tokens) :]
        logits, carry = self.stepper.feed(tokens, self._valid, features)
        self._valid += len(tokens)
        self._count(1, self._valid)
        return logits, carry

    def _step_line(self, line: _Line) -> None:
        """Feed the line's last token."""
        slot = len(self._context) + len(line.tokens) - 1 - self.stepper.lag
        ids = torch.tensor(line.tokens[-1:], device=self._device)
        logits, carry = self.stepper.step(ids, line.carries[-1], Rows(slot, 1))
        line.logits.append(logits)
        line.carries.append(carry)
        line.fed += 1
        self._count(1, slot + 1)

    def _propose(self, line: _Line, logits_1V: Tensor) -> None:
        top, index = logits_1V[0].float().max(dim=-1)
        line.tokens.append(int(self.stepper.token_ids(index[None])))
        line.probs.append(float(torch.exp(top - torch.logsumexp(logits_1V[0].float(), dim=-1))))

    def _count(self, forwards: int, kv_positions: int) -> None:
        self._work += Work(
            forwards=forwards,
            weight_bytes=forwards * self.info.weight_bytes,
            kv_bytes=kv_positions * self.info.kv_bytes_per_token,
        )

    # --- branches ----------------------------------------------------------------------------------------------

    def _guesses(self, fan_out: tuple[int, ...]) -> list[_Guess]:
        """For each accepted_len the draft's best tokens other than the one it proposed there."""
        guesses = []
        for accepted_len, width in enumerate(fan_out[: len(self._line.logits)]):
            if width == 0:
                continue
            row = self._line.logits[accepted_len][0].float()
            top, index = row.topk(min(width + 1, row.numel()))
            probs = torch.exp(top - torch.logsumexp(row, dim=-1)).tolist()
            tokens = self.stepper.token_ids(index).tolist()
            proposed = self._line.tokens[accepted_len] if accepted_len < len(self._line.tokens) else None
            kept = [(t, p) for t, p in zip(tokens, probs, strict=True) if t != proposed][:width]
            guesses += [_Guess(accepted_len, t, rank, p) for rank, (t, p) in enumerate(kept, start=1)]
        return guesses

    def _draft_branches(
        self, guesses: list[_Guess], draft_len: int, clock: Callable[[], int], arrived: Arrived
    ) -> list[Prepared]:
        batch = _BranchBatch(self, guesses, draft_len)
        ready_at: int | None = None
        outcome: Outcome | None = None
        for step in range(draft_len):
            outcome = outcome or arrived()
            if outcome is not None and not batch.keep_only(outcome.key):
                break
            batch.step(step)
        else:
            ready_at = clock()
        self._branch_lines = batch.lines if ready_at is not None else {}
        return [
            Prepared(
                accepted_len=g.accepted_len,
                bonus=g.bonus,
                rank=g.rank,
                probability=g.probability,
                proposal=self._branch_lines[g.key][0].proposal() if g.key in self._branch_lines else None,
                ready_at=ready_at if g.key in self._branch_lines else None,
            )
            for g in guesses
        ]


class _BranchBatch:
    """Branches drafted together: a row each, one shared prefix, own tokens in scratch slots."""

    def __init__(self, drafter: ChainDrafter, guesses: list[_Guess], draft_len: int) -> None:
        self._drafter = drafter
        self._stepper = drafter.stepper
        self._keys = [g.key for g in guesses]
        context, line = len(drafter._context), drafter._line
        self._first = [context + g.accepted_len - self._stepper.lag for g in guesses]
        base = context + len(line.tokens) - self._stepper.lag
        self._slots = [
            list(range(base + j * draft_len, base + (j + 1) * draft_len)) for j in range(len(guesses))
        ]
        self._ids = [g.bonus for g in guesses]
        carries = [line.carries[g.accepted_len] for g in guesses]
        self._carry = torch.cat([c for c in carries if c is not None]) if carries[0] is not None else None
        source: Literal["predicted"] | None = "predicted" if self._stepper.corrects else None
        self._lines = {key: _Line(source=source) for key in self._keys}
        self._own = dict(zip(self._keys, self._slots, strict=True))

    @property
    def lines(self) -> dict[tuple[int, int], tuple[_Line, list[int]]]:
        return {key: (self._lines[key], self._own[key]) for key in self._keys}

    def keep_only(self, key: tuple[int, int]) -> bool:
        """Go on with one branch alone; False where there is none for `key`."""
        if key not in self._keys:
            return False
        j = self._keys.index(key)
        self._keys, self._first, self._slots = [key], [self._first[j]], [self._slots[j]]
        self._ids = [self._ids[j]]
        self._carry = self._carry[j : j + 1] if self._carry is not None else None
        return True

    def step(self, step: int) -> None:
        """Feed every row's last token (the bonus at step 0) and propose its next one."""
        device = self._drafter._device
        visible = branch_visibility(
            prefix_lengths=self._first,
            own_slots=[slots[: step + 1] for slots in self._slots],
            n_slots=max(slots[step] for slots in self._slots) + 1,
            device=device,
        )
        placement = Scattered(
            torch.tensor([first + step for first in self._first], device=device),
            torch.tensor([slots[step] for slots in self._slots], device=device),
            visible,
        )
        logits, self._carry = self._stepper.step(
            torch.tensor(self._ids, device=device), self._carry, placement
        )
        self._drafter._count(1, max(self._first) + len(self._keys) * (step + 1))
        for j, key in enumerate(self._keys):
            line = self._lines[key]
            line.logits.append(logits[j : j + 1])
            line.carries.append(self._carry[j : j + 1] if self._carry is not None else None)
            line.fed += step > 0
            self._drafter._propose(line, line.logits[-1])
        self._ids = [self._lines[key].tokens[-1] for key in self._keys]


def _common_prefix(a: list[int], b: list[int]) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
