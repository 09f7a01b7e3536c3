"""A board in memory that the engine and the draft worker share, and that a CUDA device can reach."""

from __future__ import annotations

import torch

from specmon.core.errors import SpecmonError
from specmon.kernels.relay.board import Board, words_of

_FOR_ALL_DEVICES = 0x01 | 0x02  # cudaHostRegisterPortable, cudaHostRegisterMapped


class SharedBoard:
    """`memory` int64 can be sent through a pipe: both processes then see one memory.

    `n_features`: numbers a row's features have, 0 for none.
    """

    def __init__(self, n_features: int = 0) -> None:
        self.memory = torch.zeros(words_of(n_features), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self.board = Board(self.memory.numpy())
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
