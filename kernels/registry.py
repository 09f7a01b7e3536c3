"""Kernel backends by name and version; the version is part of a recipe, since it fixes the bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from specmon.kernels.accept.reference import accept_length
from specmon.kernels.attention.reference import attend_masked, attend_prefill, attend_rows
from specmon.kernels.head.reference import argmax_rows, top2_margin
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.reference import apply_rope
from specmon.kernels.swiglu.reference import swiglu


class BackendUnavailableError(ValueError):
    """A backend was asked for by name and cannot run here."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One implementation of every op. `label` ("reference-1") changes whenever a bit of a result may."""

    name: str
    version: int
    device_types: tuple[str, ...]
    rmsnorm: Callable[..., Tensor]
    apply_rope: Callable[..., Tensor]
    attend_rows: Callable[..., Tensor]
    attend_prefill: Callable[..., Tensor]
    attend_masked: Callable[..., Tensor]
    swiglu: Callable[..., Tensor]
    argmax_rows: Callable[..., Tensor]
    top2_margin: Callable[[Tensor], float]
    accept_length: Callable[[Tensor, Tensor], int]

    @property
    def label(self) -> str:
        return f"{self.name}-{self.version}"


REFERENCE = Backend(
    name="reference",
    version=1,
    device_types=("cpu", "cuda"),
    rmsnorm=rmsnorm,
    apply_rope=apply_rope,
    attend_rows=attend_rows,
    attend_prefill=attend_prefill,
    attend_masked=attend_masked,
    swiglu=swiglu,
    argmax_rows=argmax_rows,
    top2_margin=top2_margin,
    accept_length=accept_length,
)

BACKENDS: dict[str, Backend] = {backend.label: backend for backend in (REFERENCE,)}


def backend(label: str, device_type: str = "cpu") -> Backend:
    """The backend called `label` ("reference-1", or "reference" for its newest version).

    Raises: BackendUnavailableError if there is none, or it does not run on `device_type`.
    """
    found = BACKENDS.get(label) or max(
        (b for b in BACKENDS.values() if b.name == label), key=lambda b: b.version, default=None
    )
    if found is None:
        raise BackendUnavailableError(
            f"there is no kernel backend {label!r}; there are {', '.join(BACKENDS)}"
        )
    if device_type not in found.device_types:
        raise BackendUnavailableError(f"kernel backend {found.label} does not run on {device_type}")
    return found
