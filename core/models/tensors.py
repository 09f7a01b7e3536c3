"""Tensors as a file stores them, under Hugging Face's names, whatever the file is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from specmon.core.models.config import ModelConfig

StoredKind = Literal["dense", "int8", "q4_1", "q8_0", "gguf"]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One tensor as it lies in a file.

    kind "dense": `data` is float. "int8": `data` int8 [N, K] with `scale` [N, 1]. "q4_1"/"q8_0": `data` uint8 [N, bytes
    a row], GGUF blocks of 32. "gguf": another GGUF type. `gguf_type` is its
    `GGMLQuantizationType`.
    """

    name: str
    kind: StoredKind
    data: Tensor
    scale: Tensor | None = None
    gguf_type: int = 0


class TensorFile(Protocol):
    """A model's tensors and configuration; reading is lazy (memory-mapped)."""

    @property
    def where(self) -> str: ...

    @property
    def config(self) -> ModelConfig: ...

    def names(self) -> frozenset[str]: ...

    def read(self, name: str) -> Stored:
        """Raises: SpecmonError if the file has no such tensor."""
        ...
