"""A board in memory that the engine and the draft worker share, and that a CUDA device can reach."""

from __future__ import annotations

import torch
from torch import Tensor

from specmon.core.drafters.passage import Passage, passage_words
from specmon.core.errors import SpecmonError
from specmon.kernels.relay.board import Board, words_of

_FOR_ALL_DEVICES = 0x01 | 0x02  # cudaHostRegisterPortable, cudaHostRegisterMapped


class SharedBoard:
    """A board, and behind it the passage for a prompt's features where a drafter needs those (else None).

    Args:
        n_features: numbers a row's features have, 0 for none.
        memory: int64, what the other process made: sent through a pipe it is one memory that both see.
    """

    def __init__(self, n_features: int = 0, memory: Tensor | None = None) -> None:
        words = words_of(n_features)
        if memory is None:
            memory = torch.zeros(words + passage_words(n_features), dtype=torch.int64)
            memory.share_memory_()  # type: ignore[no-untyped-call]
        self.n_features, self.memory = n_features, memory
        self.board = Board(memory[:words].numpy())
        self.passage = Passage(memory[words:], n_features) if n_features else None
        self._pinned = False

    def pin(self) -> None:
        """Let CUDA devices reach it. Raises: SpecmonError where that is refused."""
        if self._pinned:
            return
        refused = torch.cuda.cudart().cudaHostRegister(  # type: ignore[no-untyped-call]
            self.memory.data_ptr(), self.memory.nbytes, _FOR_ALL_DEVICES
        )
        if int(refused):
            raise SpecmonError(
                f"The GPU cannot reach memory that two processes share (CUDA error {int(refused)})."
            )
        self._pinned = True

    def unpin(self) -> None:
        """End that; nothing may use it any more."""
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self.memory.data_ptr())  # type: ignore[no-untyped-call]
            self._pinned = False
