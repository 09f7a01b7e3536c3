"""The KV cache of one sequence: one static buffer for all layers.

Shapes: L layers, G KV heads, S slots, D head size. Slot s of the main line holds position s. Slots past the main line are
scratch for branches: they share the prefix by pointing at it and own only their new tokens.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from specmon.core.models.config import ModelConfig


class KvCache:
    """Static K and V buffers [L, G, S, D]. The cursor, how many positions are valid, is whoever's who feeds it.

    Rejecting tokens moves the cursor back and copies nothing. Slots at or past it hold stale values that no attention
    may read.
    """

    def __init__(
        self, *, n_layers: int, n_kv_heads: int, head_dim: int, n_slots: int, dtype: torch.dtype, device: str
    ) -> None:
        self._both = torch.zeros((2, n_layers, n_kv_heads, n_slots, head_dim), dtype=dtype, device=device)
        self._keys: list[Tensor] = [layer.transpose(0, 1) for layer in self._both[0]]
        self._values: list[Tensor] = [layer.transpose(0, 1) for layer in self._both[1]]
        self.n_slots = n_slots

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        *,
        n_slots: int,
        dtype: torch.dtype,
        device: torch.device | str,
        n_layers: int | None = None,
    ) -> KvCache:
        """The cache of a model's layers, or of `n_layers` like them."""
        return cls(
            n_layers=config.n_layers if n_layers is None else n_layers,
            n_kv_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            n_slots=n_slots,
            dtype=dtype,
            device=str(device),
        )

    @cached_property
    def bytes_per_token(self) -> int:
        return self._both[:, :, :, 0].numel() * self._both.element_size()

    def keys(self, layer: int) -> Tensor:
        """K of one layer, [S, G, D] (a view)."""
        return self._keys[layer]

    def values(self, layer: int) -> Tensor:
        """V of one layer, [S, G, D] (a view)."""
        return self._values[layer]

    def move(self, source: Tensor, into: Tensor) -> None:
        """Copy the slots `source` [n] to the slots `into` [n] (committing a branch); they may overlap."""
        self._both.index_copy_(3, into, self._both.index_select(3, source))

    def poison(self, first: int) -> None:
        """Fill every slot from `first` on with NaN, so that a stale read shows (tests)."""
        self._both[:, :, :, first:] = float("nan")
