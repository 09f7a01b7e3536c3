"""What a drafter learns from: rows on the device, and which of them each step takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specmon.core.errors import SpecmonError
from specmon.core.training.generate import ANSWER, FIRST, GREEDY, WHAT, Rows
from specmon.core.training.ranks import Ranks

#: Rows of a length kept out of training, at most, and their share.
_HELD_OUT_ROWS, _HELD_OUT_SHARE = 64, 0.1


class Batch(NamedTuple):
    """Rows of conversations: tokens [B, T] int64; segments [B, T] number the conversations of a row.

    answer [B, T] bool: tokens the target wrote as an answer; greedy [B, T] bool: those of them it chose greedily.
    turn: how many batches of rows so long a training took before.
    """

    tokens: Tensor
    segments: Tensor
    answer: Tensor
    greedy: Tensor
    turn: int = 0

    def mask_BTT(self) -> Tensor:
        """What each token may attend to: its conversation up to itself."""
        length = self.tokens.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=self.tokens.device).tril()
        return (self.segments[:, :, None] == self.segments[:, None]) & causal

    def learnt(self, ahead: int) -> Tensor:
        """Whether the token `ahead` of each place is of an answer of the same conversation [B, T] bool."""
        same = self.segments.roll(-ahead, 1) == self.segments
        learnt = self.answer.roll(-ahead, 1) & same
        learnt[:, -ahead:] = False
        return learnt


class _Length:
    """The rows of one length; the first are held out."""

    def __init__(self, rows: Rows, device: torch.device) -> None:
        self.rows = Rows(*(part.to(device) for part in rows))
        self.row_tokens = rows.tokens.shape[1]
        n_rows = len(rows.tokens)
        self.n_held_out = max(1, min(_HELD_OUT_ROWS, int(n_rows * _HELD_OUT_SHARE)))
        self.n_training = n_rows - self.n_held_out
        if self.n_training < 1:
            raise SpecmonError(f"{n_rows} rows of text are too few to learn from.", "Give more --tokens.")
        self._orders: dict[int, Tensor] = {}

    def batch(self, rows: Tensor, turn: int = 0) -> Batch:
        rows = rows.to(self.rows.tokens.device)
        kinds = self.rows.kinds[rows].long()
        answer = (kinds & WHAT) == ANSWER
        return Batch(
            tokens=self.rows.tokens[rows].long(),
            segments=((kinds & FIRST) > 0).long().cumsum(1),
            answer=answer,
            greedy=answer & ((kinds & GREEDY) > 0),
            turn=turn,
        )

    def row(self, place: int, seed: int) -> int:
        """The row at `place` of an endless order in which each comes once before any comes again."""
        epoch, at = divmod(place, self.n_training)
        if epoch not in self._orders:
            random = torch.Generator().manual_seed(seed + 7919 * epoch)
            self._orders = {epoch - 1: self._orders.get(epoch - 1, torch.empty(0))}
            self._orders[epoch] = torch.randperm(self.n_training, generator=random)
        return self.n_held_out + int(self._orders[epoch][at])


class Corpus:
    """All rows, by their length. Raises: SpecmonError where there are too few."""

    def __init__(self, groups: Sequence[Rows], device: torch.device) -> None:
        self._lengths = [_Length(rows, device) for rows in groups]

    def counts(self, vocab_size: int) -> Tensor:
        """How often each token is in an answer [V]."""
        counts = torch.zeros(vocab_size, dtype=torch.long)
        for length in self._lengths:
            chosen = length.rows.tokens[(length.rows.kinds & WHAT) == ANSWER].long()
            counts += torch.bincount(chosen, minlength=vocab_size).cpu()
        return counts

    def held_out(self, most_tokens: int) -> list[Batch]:
        """The rows kept out of training, in batches of at most `most_tokens`, or of one row."""
        batches = []
        for length in self._lengths:
            step = max(1, most_tokens // length.row_tokens)
            batches += [length.batch(part) for part in torch.split(torch.arange(length.n_held_out), step)]
        return batches

    def batch(self, step: int, batch_tokens: int, seed: int, ranks: Ranks) -> Batch:
        """This device's part of the rows of `step`, all of one length; lengths take turns by how much they hold."""
        length, turn = self._turn(step)
        n_rows = max(ranks.world, batch_tokens // length.row_tokens)
        places = range(turn * n_rows + ranks.rank, (turn + 1) * n_rows, ranks.world)
        return length.batch(torch.tensor([length.row(place, seed) for place in places]), turn)

    def _turn(self, step: int) -> tuple[_Length, int]:
        """The length a step takes, and how many steps took it before; there are two lengths at most."""
        first, last = self._lengths[0], self._lengths[-1]
        if first is last:
            return first, step
        held = [length.rows.tokens.numel() for length in (first, last)]
        before, after = (n * held[1] // sum(held) for n in (step, step + 1))
        return (last, before) if after > before else (first, step - before)
