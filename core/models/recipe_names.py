"""Recipes by name, without what computes them. Torch-free."""

from __future__ import annotations

from specmon.core.errors import UsageError
from specmon.kernels.registry import BackendUnavailableError, known_backend

RECIPES = ("q4", "fp8", "fp8-bf16-head", "bf16", "fp32")


def check_recipe(recipe: str, backend: str) -> None:
    """Raises: UsageError where there is no recipe, or no backend, of that name; "auto" names one of each."""
    if recipe not in ("auto", *RECIPES):
        raise UsageError(f"There is no recipe {recipe!r}.", f"Choose auto, {', '.join(RECIPES)}.")
    if backend != "auto":
        try:
            known_backend(backend)
        except BackendUnavailableError as refused:
            raise UsageError(str(refused)) from refused
