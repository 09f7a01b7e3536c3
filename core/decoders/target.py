"""The target with its KV cache: prefill a prompt, verify rows, keep what is reusable.

Shapes: R rows, D hidden size, F = features (len(taps) · D), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specmon.core.decoders.choose import Chooser
from specmon.core.drafters.shared_board import SharedBoard
from specmon.core.metrics.acceptance import node_depths
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import MAX_ROWS, RowsOut
from specmon.core.models.pool import LoadedModel, Progress
from specmon.core.models.prefill import chunk_plan
from specmon.core.models.queued import QueuedRounds


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The target's own choice after each row, greedy or sampled, and what else the pass gave.

    `launches`: the host's, None where they are not counted: those of sampling are not.
    """

    choices: list[int]
    rows: RowsOut
    launches: int | None


@dataclass(frozen=True, kw_only=True)
class PrefilledChunk:
    """One chunk of a prompt, run. `choice` is token one on the last chunk."""

    start: int
    length: int
    choice: int | None
    features_NF: Tensor | None


class Target:
    """One sequence on a loaded model. `held` are the token ids whose KV is valid: the cursor is its length."""

    def __init__(
        self, loaded: LoadedModel, device: str, n_extra_slots: int = MAX_ROWS, *, graphs: bool = True
    ) -> None:
        config = loaded.model.config
        self.model = loaded.model
        self.device = loaded.model.device
        self.context_length = loaded.context_length
        self.kv = KvCache.of(
            config, n_slots=loaded.context_length + n_extra_slots, dtype=loaded.recipe.kv, device=self.device
        )
        self._passes = loaded.open(self.kv, graphs=graphs)
        self.runs_ahead = self._passes.runs_ahead
        self.held: list[int] = []
        self._parents: Sequence[int] | None = None

    def warm(
        self, row_counts: Sequence[int], taps: Sequence[int], progress: Progress, *, levels: int = 0
    ) -> None:
        """Run each row count once, and short prompts, before anything is held: no kernel is compiled in a turn.

        Nor is a graph captured, but for a longer prompt the first time there is one of its size.
        `levels`: of drafted trees, as which rows past the first are run then; paths of up to as many nodes are moved.
        """
        chunks = self._passes.first_chunks
        of_all = len(chunks) + len(row_counts)
        for done, size in enumerate(chunks):
            if self._passes.captures:
                progress(f"capturing graphs: prompt {size}", done / of_all)
            ids = torch.zeros(min(size, self.context_length), dtype=torch.int64, device=self.device)
            self._passes.prefill(ids, 0, taps)
        for done, n_rows in enumerate(row_counts, start=len(chunks)):
            if self._passes.captures:
                rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
                progress(f"capturing graphs: verify {rows}", done / of_all)
            parents = range(-1, n_rows - 2) if levels and n_rows > 1 else None
            self._passes.rows([0] * n_rows, 0, taps, logits=False, parents=parents)
        for n_nodes in range(1, levels + 1):
            self._passes.move(range(2, 2 + n_nodes), 1)

    def reusable(self, tokens: Sequence[int]) -> int:
        """Leading positions of `tokens` whose KV can stay.

        One less than the common prefix, so that the feature before the first new token is computed again: every decoder
        then starts from the same position, whatever its drafter needs.
        """
        same = 0
        for old, new in zip(self.held, tokens[:-1], strict=False):
            if old != new:
                break
            same += 1
        return max(0, same - 1)

    def forget(self) -> None:
        """Keep nothing: the next turn starts from an empty cache."""
        self.held.clear()

    def prefill(
        self, tokens: Sequence[int], start: int, chooser: Chooser, taps: Sequence[int]
    ) -> Iterator[PrefilledChunk]:
        """Run positions start … of `tokens`, a chunk at a time."""
        del self.held[start:]
        ids = torch.tensor(tokens[start:], device=self.device)
        for first, length in chunk_plan(start, len(tokens) - start, self._passes.chunk):
            part = ids[first - start : first - start + length]
            logits, features = self._passes.prefill(part, first, taps)
            self.held += tokens[first : first + length]
            last = first + length == len(tokens)
            choice = None
            if last:
                choice = chooser.choose(logits, [len(tokens)])[0]
            yield PrefilledChunk(start=first, length=length, choice=choice, features_NF=features)

    def queued_rounds(self, shared: SharedBoard, taps: Sequence[int] = ()) -> QueuedRounds | None:
        """Rounds that the device runs one after another on a board, where the backend can."""
        if self.device.type == "cuda":
            shared.pin()
        return self._passes.queued_rounds(shared.board, shared.memory, taps)

    def begin(
        self,
        tokens: Sequence[int],
        chooser: Chooser,
        taps: Sequence[int],
        parents: Sequence[int] | None = None,
    ) -> None:
        """Start on `tokens` (the pending token, then the draft) as rows at the cursor, where the backend runs by itself.

        `parents`: of the draft's nodes where it is a tree.
        """
        self._parents = parents
        self._passes.begin_rows(tokens, len(self.held), taps, logits=not chooser.is_greedy, parents=parents)

    def end(self, chooser: Chooser) -> Verified:
        """The rows begun, with the target's choices; the cursor does not move yet."""
        out, start = self._passes.end_rows(), len(self.held)
        if chooser.is_greedy:
            return Verified(choices=out.greedy, rows=out, launches=out.launches)
        assert out.logits_RV is not None
        depths = range(len(out.greedy)) if self._parents is None else [0, *node_depths(self._parents)]
        positions = [start + 1 + depth for depth in depths]
        return Verified(choices=chooser.choose(out.logits_RV, positions), rows=out, launches=None)

    def verify(self, tokens: Sequence[int], chooser: Chooser, taps: Sequence[int]) -> Verified:
        """From `begin` to `end`."""
        self.begin(tokens, chooser, taps)
        return self.end(chooser)

    def keep(self, tokens: Sequence[int], rows: Sequence[int]) -> int | None:
        """Of the rows just verified, `rows` stay, which held `tokens`: they close up, and the cursor moves past them.

        Returns: the host's launches, None where they are not counted.
        """
        start = len(self.held)
        launches: int | None = 0
        if list(rows) != list(range(len(rows))):
            launches = self._passes.move([start + row for row in rows[1:]], start + 1)
        self.held += tokens
        return launches

    def time_steps(self, steps: int, clock: Callable[[], int]) -> list[int]:
        """Time `steps` AR steps at the cursor (ns each) without keeping them."""
        if not self.held:
            raise ValueError("nothing is in the KV cache yet")
        last, chooser, times = self.held[-1], Chooser.greedy(), []
        for _ in range(steps):
            t0 = clock()
            self.verify([last], chooser, ())
            times.append(clock() - t0)
        return times
