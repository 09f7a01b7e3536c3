"""Rounds settled on the device, with the buffers that the next round's kernels read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specmon.kernels.relay import board
from specmon.kernels.relay.post import post_kernel
from specmon.kernels.relay.settle import settle_kernel
from specmon.kernels.stream.launch import has_time, launch_options
from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.stream.schedule import cdiv
from specmon.kernels.stream.winners import WORDS

_BLOCK = 1024  # numbers of a row that a program posts
_PATIENCE = 20_000_000  # looks over the bus, about a µs each


class Relay:
    """Where the rows of the next round stand: tokens [16] int64, positions [16] int32, and what a turn has left.

    Args:
        memory: the board int64, where `device` reaches it.
    """

    def __init__(self, memory: Tensor, device: torch.device, *, patience: int = _PATIENCE) -> None:
        self.tokens = torch.zeros(ROWS, dtype=torch.int64, device=device)
        self.positions = torch.zeros(ROWS, dtype=torch.int32, device=device)
        self._memory, self._device, self._patience = memory, device, patience
        self._features = memory[board.TOTAL :].view(torch.float32)
        self._state = torch.zeros(3, dtype=torch.int64, device=device)
        self._last = torch.full((ROWS,), -1, dtype=torch.int64, device=device)

    def start(
        self, serial: int, tokens: Sequence[int], position: int, *, left: int, last: Sequence[int]
    ) -> None:
        """The first round: its serial number, its rows' tokens from `position` on, tokens that may still be emitted, and
        the tokens that end generation (16 at most). Nothing may be under way.
        """
        self.tokens[: len(tokens)] = torch.tensor(tokens)
        self.positions.copy_(torch.arange(position, position + ROWS, dtype=torch.int32))
        self._state.copy_(torch.tensor([serial, left, 0]))
        self._last.fill_(-1)
        self._last[: len(last)] = torch.tensor(list(last), dtype=torch.int64)

    def post(self, features: Tensor, n_rows: int) -> None:
        """Queue the way of a round's features to the board, before it is settled. Shapes: features [≥ n_rows, F] fp32."""
        width = features.shape[1]
        post_kernel[(cdiv(width, _BLOCK), n_rows)](
            features,
            self._features,
            self._state,
            F=width,
            BLOCK=_BLOCK,
            num_warps=4,
            **launch_options(self._device),
        )

    def settle(self, winners: Tensor, draft_len: int) -> None:
        """Queue the end of a round of `draft_len` drafted tokens. Shapes: winners [WORDS] int64, on the device."""
        settle_kernel[(1,)](
            self._memory, winners, self.tokens, self.positions, self._state, self._last,
            LENGTH=draft_len, RECORDS=board.RECORDS, RECORD=board.RECORD, HEAD=board.HEAD, WINNERS=WORDS,
            TABLE_SEQ=board.TABLE_SEQ, KEYS=board.KEYS, TOKENS=board.TOKENS, DRAFTS=board.DRAFTS,
            DRAFTED=board.DRAFTED, BRANCHES=board.BRANCHES, KEY_SHIFT=board.KEY_SHIFT, PATIENCE=self._patience,
            STAMP=has_time(self._device), num_warps=1, **launch_options(self._device),
        )  # fmt: skip
