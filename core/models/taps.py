"""The features of a pass: what some of its layers take in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Taps:
    """Keeps the input of some layers of a pass: features [n_rows, taps · D] fp32."""

    def __init__(self, layers: Sequence[int], width: int, n_rows: int, device: torch.device) -> None:
        self._layers, self._width = tuple(layers), width
        self.features = torch.zeros(n_rows, len(layers) * width, device=device)

    def keep(self, layer: int, residual: Tensor) -> None:
        """Shapes: residual [R, D], R ≤ n_rows: the first R rows of the features."""
        if layer in self._layers:
            at = self._layers.index(layer) * self._width
            self.features[: len(residual), at : at + self._width] = residual


class TapBuffers:
    """One `Taps` for every choice of layers, made when first asked for."""

    def __init__(self, width: int, n_rows: int, device: torch.device) -> None:
        self._width, self._n_rows, self._device = width, n_rows, device
        self._made: dict[tuple[int, ...], Taps] = {}

    def of(self, layers: tuple[int, ...]) -> Taps | None:
        """None where no layers are tapped."""
        if layers and layers not in self._made:
            self._made[layers] = Taps(layers, self._width, self._n_rows, self._device)
        return self._made.get(layers)
