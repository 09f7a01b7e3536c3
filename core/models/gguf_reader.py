"""GGUF's container: metadata as plain values, tensors as views of the mapped file.

The gguf package's own reader makes several arrays a string, which takes seconds for a vocabulary of 50,000.
Source: ggml's description of GGUF, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_PLAIN = {"F32": np.float32, "F16": np.float16}
_ALIGNMENT = 32


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: numbers for F32 and F16, else bytes; `data` has the rows' shape and is read-only."""

    type: GGMLQuantizationType
    data: np.ndarray[Any, Any]


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, GgufTensor]]:
    """Metadata and tensors of the file at `path`.

    Raises: ValueError where it is not GGUF or cut; OSError where it cannot be read.
    """
    with path.open("rb") as stream:
        if not stream.read(1):
            raise ValueError("it is empty")
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    cursor = _Cursor(mapped)
    if mapped[:4] != b"GGUF":
        raise ValueError("it does not start with GGUF")
    cursor.at = 4
    version = cursor.number("I")
    if version not in (2, 3):
        raise ValueError(f"version {version} cannot be read")
    n_tensors, n_fields = cursor.number("Q"), cursor.number("Q")
    fields = {cursor.string(): cursor.value(cursor.number("I")) for _ in range(n_fields)}
    infos = [cursor.tensor_info() for _ in range(n_tensors)]
    alignment = fields.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"its alignment is {alignment!r}")
    start = -(-cursor.at // alignment) * alignment
    return fields, {
        name: GgufTensor(kind, _view(mapped, kind, shape, start + offset))
        for name, shape, kind, offset in infos
    }


class _Cursor:
    """Reads one value after the other."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{code}") * count
        if self.at + size > len(self.data):
            raise ValueError(f"it ends inside its header, at byte {len(self.data)}")
        out = struct.unpack_from(f"<{count}{code}", self.data, self.at)
        self.at += size
        return out

    def string(self) -> str:
        (length,) = self.numbers("Q", 1)
        end = self.at + length
        if end > len(self.data):
            raise ValueError(f"it ends inside its header, at byte {len(self.data)}")
        text = self.data[self.at : end].decode("utf-8", errors="replace")
        self.at = end
        return text

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, length = self.number("I"), self.number("Q")
            if inner in _NUMBERS:
                return list(self.numbers(_NUMBERS[inner], length))
            return [self.value(inner) for _ in range(length)]
        if kind not in _NUMBERS:
            raise ValueError(f"its metadata has a value of unknown kind {kind}")
        return self.number(_NUMBERS[kind])

    def tensor_info(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name, n_dims = self.string(), self.number("I")
        shape = self.numbers("Q", n_dims)[::-1]
        return name, shape, GGMLQuantizationType(self.number("I")), self.number("Q")


def _view(
    data: mmap.mmap, kind: GGMLQuantizationType, shape: tuple[int, ...], start: int
) -> np.ndarray[Any, Any]:
    block, block_bytes = GGML_QUANT_SIZES[kind]
    *rows, width = shape
    if width % block:
        raise ValueError(f"a tensor of type {kind.name} has rows of {width} values")
    row_bytes = width // block * block_bytes
    size = int(np.prod(rows, dtype=np.int64)) * row_bytes
    if start + size > len(data):
        raise ValueError(f"it ends at byte {len(data)}, inside its tensors")
    flat = np.frombuffer(data, np.uint8, size, start)
    plain = _PLAIN.get(kind.name)
    return flat.view(plain).reshape(shape) if plain else flat.reshape(*rows, row_bytes)
