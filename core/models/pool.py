"""Models loaded once and shared by the lanes that use the same weights in the same recipe on the same device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specmon.core import paths
from specmon.core.models.build import build_transformer
from specmon.core.models.recipe import Recipe, resolve_recipe
from specmon.core.models.source import Source, open_model
from specmon.core.models.tokenizer import Tokenizer
from specmon.core.models.transformer import Transformer

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A target ready to run."""

    source: Source
    tokenizer: Tokenizer
    model: Transformer
    recipe: Recipe
    context_length: int


class ModelPool:
    """Keeps what was loaded for as long as the engine lives."""

    def __init__(self, cache_dir: Path | None = None) -> None:
        self.cache_dir = cache_dir or paths.cache_dir()
        self._sources: dict[str, tuple[Source, Tokenizer]] = {}
        self._models: dict[tuple[str, str, str], Transformer] = {}

    def target(self, name: str, recipe: str, device: str, progress: Progress) -> LoadedModel:
        """Load target `name`, or share it.

        Raises: SpecmonError or UsageError, as `open_model`, `resolve_recipe` and `build_transformer`.
        """
        progress(f"opening {name}", None)
        if name not in self._sources:
            opened = open_model(name, self.cache_dir)
            self._sources[name] = opened, opened.tokenizer()
        source, tokenizer = self._sources[name]
        chosen = resolve_recipe(recipe, device, source.file)
        context = source.file.config.served_context
        key = (name, chosen.name, "cpu" if device.startswith("cpu") else device)
        if key not in self._models:
            self._models[key] = build_transformer(
                source.file, chosen, device, max_positions=context + 64, progress=progress
            )
        return LoadedModel(
            source=source,
            tokenizer=tokenizer,
            model=self._models[key],
            recipe=chosen,
            context_length=context,
        )
