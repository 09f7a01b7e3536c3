"""Rounds that the target's device runs one after another: the host queues them ahead and reads what they came to.

A round is one CUDA graph: a pass over the pending token and the draft, then `kernels/relay`, which accepts, tells the
outcome on the board, takes the next draft from it and sets the next round's rows. Between two rounds nothing waits for
the host; the second round in the queue stands by for what the first one decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from specmon.core.models.passes import RowsOut
from specmon.core.models.replays import Mark, Replays
from specmon.kernels.attention.split import Merge, merge_for
from specmon.kernels.relay.board import Board, Record
from specmon.kernels.relay.launch import Relay
from specmon.kernels.stream.winners import Winners, WinnersOfPasses

#: Queue a pass of so many rows: tokens, positions, and where its winners go.
EnqueuePass = Callable[[torch.Tensor, torch.Tensor, int, Winners, Merge], None]


@dataclass(frozen=True)
class _Shape:
    """What a graph is captured for."""

    draft_len: int
    merge: Merge


@dataclass(frozen=True, kw_only=True)
class Queued:
    """A round on its way. `done` is reached once the next round's rows are set."""

    serial: int
    draft_len: int
    launches: int | None
    done: Mark


class QueuedRounds:
    """Rounds of one sequence on a board that the draft worker writes to.

    Args:
        board, memory: the board and the memory it looks at, where the device reaches it.
        enqueue: queues a pass. features: where it leaves the drafter's [16, F] fp32, None where it has none.
    """

    def __init__(
        self,
        board: Board,
        memory: torch.Tensor,
        enqueue: EnqueuePass,
        features: torch.Tensor | None,
        device: torch.device,
        *,
        graphs: bool,
    ) -> None:
        self.board = board
        self._enqueue, self._features, self._device = enqueue, features, device
        self.feature_bytes = 0 if features is None else features[0].nbytes  # a row
        self._relay = Relay(memory, device)
        self._won = WinnersOfPasses(1, device)
        self._replays = Replays(device, graphs=graphs, repeat=False)
        self._serial = 0
        self._under_way: list[Queued] = []

    @property
    def serial(self) -> int:
        """Number of the round that is queued next."""
        return self._serial

    def start(self, tokens: Sequence[int], position: int, *, left: int, last: Sequence[int]) -> None:
        """Set the first round's rows: the pending token and the draft, from `position` on.

        Args:
            left: tokens that may still be emitted. last: up to 16 tokens that end generation.
        """
        self.stop()
        self.board.stop(False)
        self._relay.start(self._serial, tokens, position, left=left, last=last)

    def queue(self, draft_len: int, length: int) -> Queued:
        """Queue a round and wait for nothing. `length`: keys its last row sees, or more."""
        shape = _Shape(draft_len, merge_for(length))
        launches = self._replays.run(shape, partial(self._enqueue_round, shape))
        queued = Queued(serial=self._serial, draft_len=draft_len, launches=launches, done=Mark(self._device))
        self._serial += 1
        self._under_way.append(queued)
        return queued

    def take(self, queued: Queued) -> tuple[Record, RowsOut]:
        """What a round came to that is done; rounds are taken in their order."""
        assert self._under_way[0] is queued
        del self._under_way[0]
        record = self.board.record(queued.serial)
        return record, RowsOut.of(record.won, queued.draft_len + 1, queued.launches)

    def stop(self) -> None:
        """Let rounds still under way end, whatever they come to, and wait for that."""
        if self._under_way:
            self.board.stop()
            self._under_way[-1].done.wait()
            self._under_way.clear()

    def warm(self, draft_len: int) -> None:
        """Run and capture a round of `draft_len` before anything is held."""
        self.start([0] * (draft_len + 1), 0, left=1, last=())
        self.queue(draft_len, draft_len + 1)
        self.stop()

    def _enqueue_round(self, shape: _Shape) -> None:
        won = self._won.near(0)
        self._enqueue(self._relay.tokens, self._relay.positions, shape.draft_len + 1, won, shape.merge)
        if self._features is not None:
            self._relay.post(self._features, shape.draft_len + 1)
        self._relay.settle(self._won.memory(0), shape.draft_len)
