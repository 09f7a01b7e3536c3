"""A trained drafter as a folder that specmon and others load: published names, bf16 or int8 a row."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from specmon.core.training.atomic import write_whole
from specmon.core.training.learner import Learner, put
from specmon.kernels.dequantise.reference import quantise_rows_int8

#: The last file of a folder to be written.
WEIGHTS = "model.safetensors"

_INT8 = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "config_groups": {
        "group_0": {
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
            "targets": ["Linear", "Embedding"],
        }
    },
}


def export(learner: Learner, folder: Path, *, int8: bool) -> None:
    """Write config.json and model.safetensors; with `int8` matrices have a bf16 scale a row. Raises: SpecmonError."""
    raw = learner.raw_config() | ({"quantization_config": _INT8} if int8 else {})
    tensors: dict[str, Tensor] = {}
    for name, tensor in learner.tensors().items():
        tensors |= stored(name, tensor.detach().cpu(), int8=int8)
    text = json.dumps(raw, indent=2) + "\n"
    write_whole(folder / "config.json", partial(Path.write_text, data=text, encoding="utf-8"))
    write_whole(folder / WEIGHTS, partial(save_file, tensors, metadata={"format": "pt"}))


def stored(name: str, tensor: Tensor, *, int8: bool) -> dict[str, Tensor]:
    """A tensor as it lies in the file: under its name, and with its scales where it is quantised."""
    if not tensor.is_floating_point():
        return {name: tensor.contiguous()}
    if not int8 or tensor.dim() < 2:
        return {name: tensor.bfloat16().contiguous()}
    codes, scales = quantise_rows_int8(tensor)
    return {name: codes, f"{name}_scale": scales[:, None].contiguous()}


@torch.no_grad()
def as_stored(learner: Learner, *, int8: bool) -> Learner:
    """A copy that computes with the numbers its file would hold."""
    copy, numbers = deepcopy(learner), {}
    for name, tensor in learner.tensors().items():
        parts = stored(name, tensor, int8=int8)
        scale = parts.get(f"{name}_scale")
        numbers[name] = parts[name].float() if scale is None else parts[name].float() * scale.float()
    put(numbers, copy.module)
    return copy


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
