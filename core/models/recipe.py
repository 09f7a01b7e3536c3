"""Recipes: the numeric contract of a lane. Outputs may differ between recipes, never between decoders inside one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from specmon.core.errors import UsageError
from specmon.core.models.recipe_names import check_recipe
from specmon.core.models.tensors import TensorFile
from specmon.kernels.registry import REFERENCE, BackendUnavailableError, choose_backend


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Formats of matmul inputs and KV, and the backend with its version. Norms, RoPE and the residual stream are fp32."""

    name: str
    activation: torch.dtype
    kv: torch.dtype
    quantised: bool  # weights stay as the file stores them where a kernel takes that form
    fp8: bool = False  # projections in e4m3, a scale an output channel
    fp8_head: bool = False
    backend: str = REFERENCE.label


def resolve_recipe(
    name: str, device: str, file: TensorFile, backend: str = "auto", *, n_devices: int = 1
) -> Recipe:
    """The recipe `name` on `device` for the weights in `file`; "auto" is q4 on a CPU for Q4_1 weights, else bf16.

    `backend` is "auto" or one of `kernels.registry`. `n_devices` that share the matmuls need a recipe of floats and plain
    torch.
    Raises: UsageError for a name that is unknown or cannot work here.
    """
    check_recipe(name, backend)
    on_cpu = device.startswith("cpu")
    if n_devices > 1:
        if name not in ("auto", "bf16", "fp32") or backend not in ("auto", REFERENCE.name):
            raise UsageError(
                "A target on several devices runs in bf16 or fp32 on the reference backend.",
                "Give two devices for other kernels: the target's and the draft's.",
            )
        name, backend = "bf16" if name == "auto" else name, REFERENCE.name
    if name == "auto":
        name = "q4" if on_cpu and _holds_q4_1(file) else "bf16"
    if name == "q4" and not on_cpu:
        raise UsageError(f"Recipe q4 runs on a CPU only, not on {device}.", "Use --recipe bf16.")
    if name.startswith("fp8") and on_cpu:
        raise UsageError(f"Recipe {name} runs on a GPU only, not on {device}.", "Use --recipe auto.")
    if name == "q4" and not _holds_q4_1(file):
        raise UsageError(f"{file.where} holds no Q4_1 weights for recipe q4.", "Use --recipe bf16.")
    try:
        chosen = choose_backend(backend, name, "cpu" if on_cpu else "cuda")
    except BackendUnavailableError as refused:
        raise UsageError(str(refused)) from refused
    if name == "fp32":
        return Recipe(
            name="fp32",
            activation=torch.float32,
            kv=torch.float32,
            quantised=False,
            backend=chosen.label,
        )
    return Recipe(
        name=name,
        activation=torch.bfloat16,
        kv=torch.float32 if on_cpu else torch.bfloat16,
        quantised=name == "q4",
        fp8=name.startswith("fp8"),
        fp8_head=name == "fp8",
        backend=chosen.label,
    )


def draft_recipe(target: Recipe, device: str) -> Recipe:
    """How a drafter runs beside `target`: int8 weights as stored on a CPU, else the target's own format.

    A drafter's numbers never decide a token, so on a CPU the fastest form serves every target recipe.
    """
    if not device.startswith("cpu"):
        return target
    return Recipe(name="int8", activation=torch.bfloat16, kv=torch.float32, quantised=True)


def _holds_q4_1(file: TensorFile) -> bool:
    name = "model.layers.0.mlp.down_proj.weight"
    return name in file.names() and file.read(name).kind == "q4_1"
