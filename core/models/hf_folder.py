"""A Hugging Face folder: config.json and safetensors, nothing that runs code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from specmon.core.errors import SpecmonError
from specmon.core.models.config import ModelConfig, config_from_hf
from specmon.core.models.json_fields import table
from specmon.core.models.tensors import Stored

#: Folders of a training, the smaller last.
TRAINED_FORMS = ("bf16", "int8")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")

_ADVICE = "Give a Hugging Face model folder or a .gguf file."


class HfFolder:
    """Tensors of a folder with config.json and *.safetensors.

    Raises: SpecmonError where the folder, its configuration or its weights cannot be used; pickled weights are refused.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = str(folder)
        _refuse_pipes(folder)
        self.raw_config = _read_json(folder / "config.json")
        self.config: ModelConfig = config_from_hf(self.raw_config, str(folder / "config.json"))
        self._owner = _owners(_weight_files(folder))

    def names(self) -> frozenset[str]:
        return frozenset(self._owner)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor that is there, without reading it."""
        return tuple(self._owner[name].get_slice(name).get_shape())

    def read(self, name: str) -> Stored:
        if name not in self._owner:
            raise SpecmonError(f"{self.where} has no tensor {name}.", "It is not a complete model.")
        data = self._owner[name].get_tensor(name)
        if data.dtype == torch.int8:
            scale_name = f"{name}_scale"
            if scale_name not in self._owner:
                raise SpecmonError(f"{self.where} stores {name} as int8 without {scale_name}.")
            return Stored(
                name=name, kind="int8", data=data, scale=self._owner[scale_name].get_tensor(scale_name)
            )
        return Stored(name=name, kind="dense", data=data)


def _owners(files: list[Path]) -> dict[str, Any]:
    """The open file of each tensor; headers are read, and held to the files' lengths."""
    owners: dict[str, Any] = {}
    for path in files:
        try:
            handle = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as bad:
            raise SpecmonError(
                f"{path} is not a whole safetensors file ({bad}).", "Download it again."
            ) from bad
        owners.update(dict.fromkeys(handle.keys(), handle))  # type: ignore[no-untyped-call]
    return owners


def _refuse_pipes(folder: Path) -> None:
    """Raises: SpecmonError for what is there and no file: opening it could wait for its other end forever."""
    for path in sorted(folder.glob("*")):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise SpecmonError(f"{path} is no file.", "Give a folder that holds a model's files.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        inside = [name for name in TRAINED_FORMS if (path.parent / name / path.name).exists()]
        advice = f"It may be a training's: give {path.parent / inside[-1]}." if inside else _ADVICE
        raise SpecmonError(f"{path.parent} has no config.json.", advice) from None
    except (OSError, ValueError, RecursionError) as bad:
        raise SpecmonError(f"{path} cannot be read: {bad}.") from bad
    if not isinstance(parsed, dict):
        raise SpecmonError(f"{path} is not a JSON object.")
    return parsed


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(map(str, table(_read_json(index), "weight_map", str(index)).values())))
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            raise SpecmonError(f"{folder} lacks {missing[0]}, which its index names.", "Download it again.")
        return [folder / name for name in names]
    files = sorted(folder.glob("*.safetensors"))
    if files:
        return files
    if any(next(folder.glob(pattern), None) for pattern in PICKLES):
        raise SpecmonError(
            f"{folder} holds pickled weights only, which can run code when they are opened.",
            "Convert them to safetensors.",
        )
    raise SpecmonError(f"{folder} has no *.safetensors file.")
