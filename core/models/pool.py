"""Models loaded once and shared by the lanes that use the same weights in the same recipe on the same device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specmon.core import paths
from specmon.core.models.build import build_transformer
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import Passes
from specmon.core.models.recipe import Recipe, resolve_recipe
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.source import Source, open_model
from specmon.core.models.tokenizer import Tokenizer
from specmon.core.models.transformer import Transformer
from specmon.kernels.registry import TRITON

if TYPE_CHECKING:
    from specmon.core.models.streamed import StreamedModel

Progress = Callable[[str, float | None], None]
_Key = tuple[str, str, tuple[str, ...]]


def unwatched(what: str, part: float | None) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A target ready to run."""

    source: Source
    tokenizer: Tokenizer
    model: Transformer
    recipe: Recipe
    context_length: int
    streamed: StreamedModel | None = None

    def open(self, kv: KvCache, *, graphs: bool = True) -> Passes:
        """The passes of one sequence on `kv`, with the recipe's backend; `graphs` as in `open_passes`."""
        return open_passes(self.model, self.streamed, kv, graphs=graphs)


def open_passes(
    model: Transformer, streamed: StreamedModel | None, kv: KvCache, *, graphs: bool = True
) -> Passes:
    """The passes of one sequence on `kv`. `graphs`: capture and replay them where the backend can."""
    if streamed is None:
        return ReferencePasses(model, kv)
    from specmon.core.models.streamed import StreamedPasses

    return StreamedPasses(streamed, kv, graphs=graphs)


def stream(model: Transformer, recipe: Recipe) -> StreamedModel | None:
    """`model` behind streaming kernels where the recipe's backend has them (Triton is imported only then)."""
    if recipe.backend != TRITON.label:
        return None
    from specmon.core.models.streamed import StreamedModel

    return StreamedModel(model)


class ModelPool:
    """Keeps what was loaded for as long as the engine lives."""

    def __init__(self, cache_dir: Path | None = None) -> None:
        self.cache_dir = cache_dir or paths.cache_dir()
        self._sources: dict[str, tuple[Source, Tokenizer]] = {}
        self._models: dict[_Key, Transformer] = {}
        self._streamed: dict[tuple[_Key, str], StreamedModel | None] = {}

    def target(
        self,
        name: str,
        recipe: str,
        device: str,
        progress: Progress,
        backend: str = "auto",
        more_devices: tuple[str, ...] = (),
    ) -> LoadedModel:
        """Load target `name` on `device`, its matmuls shared with `more_devices`, or share what is loaded.

        Raises: SpecmonError or UsageError, as `open_model`, `resolve_recipe` and `build_transformer`.
        """
        progress(f"opening {name}", None)
        if name not in self._sources:
            opened = open_model(name, self.cache_dir)
            self._sources[name] = opened, opened.tokenizer()
        source, tokenizer = self._sources[name]
        chosen = resolve_recipe(recipe, device, source.file, backend, n_devices=1 + len(more_devices))
        context = source.file.config.served_context
        homes = tuple("cpu" if at.startswith("cpu") else at for at in (device, *more_devices))
        key = (name, chosen.name, homes)
        if key not in self._models:
            self._models[key] = build_transformer(
                source.file,
                chosen,
                device,
                max_positions=context + 64,
                progress=progress,
                more_devices=more_devices,
            )
        if (key, chosen.backend) not in self._streamed:
            self._streamed[key, chosen.backend] = stream(self._models[key], chosen)
        return LoadedModel(
            source=source,
            tokenizer=tokenizer,
            model=self._models[key],
            recipe=chosen,
            context_length=context,
            streamed=self._streamed[key, chosen.backend],
        )
