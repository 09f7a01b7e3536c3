"""Kernel backends by name and version: what computes a recipe. The version is part of the recipe, since it fixes the bits.

To add one: give it a line in BACKENDS, its passes to `core/models/pool.py`, and raise its version whenever a bit may change
(Triton's stands in `stream/schedules.toml`, since a schedule is part of it).
"""

from __future__ import annotations

from dataclasses import dataclass

from specmon.kernels.stream.schedule import shipped_table


class BackendUnavailableError(ValueError):
    """A backend was asked for by name and cannot run here."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """`recipes` it computes on each device type. `label` ("reference-2") stands in events and JSON."""

    name: str
    version: int
    recipes: dict[str, tuple[str, ...]]

    @property
    def label(self) -> str:
        return f"{self.name}-{self.version}"

    def runs(self, recipe: str, device_type: str) -> bool:
        return recipe in self.recipes.get(device_type, ())


REFERENCE = Backend(
    name="reference", version=2, recipes={"cpu": ("q4", "bf16", "fp32"), "cuda": ("bf16", "fp32")}
)
TRITON = Backend(
    name="triton", version=shipped_table().version, recipes={"cuda": ("bf16", "fp8", "fp8-bf16-head")}
)

#: The first that can run a recipe is what "auto" takes.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (TRITON, REFERENCE)}


def known_backend(name: str) -> Backend:
    """The backend `name`. Raises: BackendUnavailableError, one sentence, if there is none of that name."""
    if name not in BACKENDS:
        raise BackendUnavailableError(
            f"There is no backend {name!r}; choose auto, {', '.join(sorted(BACKENDS))}."
        )
    return BACKENDS[name]


def choose_backend(name: str, recipe: str, device_type: str) -> Backend:
    """The backend `name`, or with "auto" the best for `recipe` on `device_type` ("cpu", "cuda").

    Raises: BackendUnavailableError, one sentence, if there is none of that name or it does not run there.
    """
    if name == "auto":
        able = [b for b in BACKENDS.values() if b.runs(recipe, device_type)]
        if not able:
            raise BackendUnavailableError(f"No backend runs recipe {recipe} on {device_type}.")
        return able[0]
    found = known_backend(name)
    if not found.runs(recipe, device_type):
        raise BackendUnavailableError(f"The backend {name} does not run recipe {recipe} on {device_type}.")
    return found
