"""The likeliest tokens after several places of a line, found on the device in one piece of work.

Each place has a row of logits. Rows lie where earlier passes left them; a kernel fetches them by their addresses, so that
one graph serves a line whichever pass drafted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specmon.core.models.passes import MAX_ROWS, Pick
from specmon.kernels.attention.split import UNTILED, Merge, merge_for
from specmon.kernels.head.likely import MOST, LikelyRows
from specmon.kernels.head.reference import top_rows
from specmon.kernels.stream.launch import gather, pick


@dataclass(frozen=True)
class LikelyShape:
    """A line's last token fed, or none, and likely tokens after each place: what a graph of it is captured for."""

    n_seen: int
    feeds: bool
    count: int
    merge: Merge

    @property
    def n_places(self) -> int:
        return self.n_seen + self.feeds


class LikelyTokens:
    """Up to 16 rows of logits over `n_tokens`, and the likeliest tokens of each.

    `count` of them are found, as many as were ever asked for: fan-outs that change from round to round share a graph.

    Args:
        names: token ids of the logits [n_tokens] int64; without it a logit's number is its token.
    """

    def __init__(self, n_tokens: int, device: torch.device, names: Tensor | None = None) -> None:
        self._n_tokens, self._names, self._device = n_tokens, names, device
        self._pinned = device.type == "cuda"
        self.rows = torch.zeros(MAX_ROWS, n_tokens, device=device)
        self._addresses = torch.zeros(MAX_ROWS, dtype=torch.int64, pin_memory=self._pinned)
        self._addresses_here = self._addresses.numpy()
        self.count = 0
        self._make_room(1)

    def start_at(self, seen: Sequence[Tensor], count: int, fed_at: int | None = None) -> LikelyShape:
        """The rows to fetch, [1, n_tokens] fp32 each, and how many tokens to find; no work may be under way.

        `fed_at`: the slot of the token that is fed for one place more, None for none.
        """
        self._addresses_here[: len(seen)] = [row.data_ptr() for row in seen]
        self._make_room(min(count, self._n_tokens))
        merge = UNTILED if fed_at is None else merge_for(fed_at + 1)
        return LikelyShape(len(seen), fed_at is not None, self.count, merge)

    def _make_room(self, count: int) -> None:
        if count > self.count:
            self.count = count
            shape = MAX_ROWS, count
            self._tokens = torch.zeros(shape, dtype=torch.int64, pin_memory=self._pinned)
            self._probs = torch.zeros(shape, pin_memory=self._pinned)
            self._tokens_here, self._probs_here = self._tokens.numpy(), self._probs.numpy()
            few = count <= MOST
            self._best = LikelyRows(self._n_tokens, count, self._device, self._names) if few else None

    def enqueue(self, n_seen: int, n_rows: int) -> Tensor:
        """Queue it: fetch the first `n_seen` rows, and find the likeliest tokens of `n_rows`.

        Returns: them, on the device [n_rows, count] int64.
        """
        if n_seen:
            gather(self._addresses, self.rows, n_seen)
        if self._best is not None:
            return self._best(self.rows, n_rows, self._tokens, self._probs)
        index, probs = top_rows(self.rows[:n_rows], self.count)
        tokens = index if self._names is None else self._names[index]
        self._tokens[:n_rows].copy_(tokens, non_blocking=True)
        self._probs[:n_rows].copy_(probs, non_blocking=True)
        return tokens

    def here(self, n_rows: int, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """Tokens and probabilities on the host, best first, once the work is done."""
        return self._tokens_here[:n_rows, :count].tolist(), self._probs_here[:n_rows, :count].tolist()


class Picks:
    """Tokens that branches begin with, picked from the likely ones on the device: `tokens` [16] int64."""

    def __init__(self, device: torch.device) -> None:
        self.tokens = torch.zeros(MAX_ROWS, dtype=torch.int64, device=device)
        self._choices = torch.zeros(3, MAX_ROWS, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._choices_here = self._choices.numpy()

    def start_at(self, picks: Sequence[Pick]) -> None:
        """What to pick; no work may be under way."""
        self._choices_here[:, : len(picks)] = np.transpose([(p.place, p.rank, p.proposed) for p in picks])

    def enqueue(self, likely: Tensor, n_picks: int) -> None:
        """Queue it. Shapes: likely [places, count] int64."""
        pick(likely, self._choices, self.tokens, n_picks)
